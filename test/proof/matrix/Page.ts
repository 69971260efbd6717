/** docs/fault-matrix.md, written from the table. */
import type { WorkName } from "./Background.ts"
import { type Failure, failuresOf, groups, wholeFailures } from "./Failures.ts"
import { type OperationName, operations } from "./Operations.ts"
import { type PathName, paths, type UpstreamName, upstreamOf } from "./Paths.ts"
import { cellOf, table, unaffected, whole, wholeCellOf, workCellOf, works } from "./Table.ts"

const row = (cells: ReadonlyArray<string>): string => `| ${cells.join(" | ")} |`
const tableOf = (head: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): string =>
  [row(head), row(head.map(() => "---")), ...rows.map(row)].join("\n")

const groupName = (group: string): string =>
  Object.hasOwn(groups, group) ? groups[group as keyof typeof groups] : `\`${group}\``
const code = (text: string): string => `\`${text}\``

interface PublishedColumn {
  readonly title: string
  readonly path: PathName
  readonly cell: (failure: Failure) => string | undefined
}

/** Rows in the order of the groups; codes of a contract follow. */
const rank = (label: string): number => {
  const at = Object.values<string>(groups).indexOf(label)
  return at === -1 ? Object.keys(groups).length : at
}

/** A row for each group of failures, and one for each failure that a column treats in its own way. Equal rows are one. */
const rowsOf = (columns: ReadonlyArray<PublishedColumn>): ReadonlyArray<ReadonlyArray<string>> => {
  const cellsByLabel = new Map<string, Array<string>>()
  for (const [at, { cell, path }] of columns.entries()) {
    const failures = failuresOf(path, "")
    const usual = new Map<string, string>()
    // The text that most failures of a group have.
    for (const { group } of failures) {
      const texts = failures.filter((one) => one.group === group).map((one) => cell(one) ?? "")
      const count = (text: string) => texts.filter((other) => other === text).length
      usual.set(group, [...texts].sort((one, other) => count(other) - count(one))[0] ?? "")
    }
    for (const failure of failures) {
      const text = cell(failure) ?? ""
      const label = text === usual.get(failure.group) ? groupName(failure.group) : code(failure.id)
      const cells = cellsByLabel.get(label) ?? columns.map(() => "")
      cells[at] = text
      cellsByLabel.set(label, cells)
    }
  }
  const labelsByCells = new Map<string, Array<string>>()
  for (const [label, cells] of cellsByLabel) {
    const key = JSON.stringify(cells)
    labelsByCells.set(key, [...(labelsByCells.get(key) ?? []), label])
  }
  const ranked = [...labelsByCells].sort(([, [one = ""]], [, [other = ""]]) => rank(one) - rank(other))
  return ranked.map(([key, labels]) => {
    // Made by the line above.
    const cells = JSON.parse(key) as ReadonlyArray<string>
    return [labels.join(", "), ...cells]
  })
}

const section = (title: string, columns: ReadonlyArray<PublishedColumn>): string =>
  [`### ${title}`, "", tableOf(["Failure", ...columns.map((column) => column.title)], rowsOf(columns))].join(
    "\n"
  )

/** Operations in one table. */
const together: ReadonlyArray<ReadonlyArray<OperationName>> = [
  ["login"],
  ["refresh", "logout"],
  ["me", "me in a testing environment", "iam in a testing environment", "report with a bearer"],
  ["subscription"],
  ["ting"]
]

const operationSections = (): ReadonlyArray<string> =>
  together.map((names) =>
    section(
      names.join("; "),
      names.flatMap((name) =>
        (table[name] ?? []).map((column) => ({
          title: `${names.length > 1 ? `${name}: ` : ""}${code(paths[column.path].text)}`,
          path: column.path,
          cell: (failure: Failure) => cellOf(column, failure)
        }))
      )
    )
  )

const togetherWorks: ReadonlyArray<ReadonlyArray<WorkName>> = [
  ["report delivery", "search after a lost answer", "duplicates"],
  ["telemetry", "own telemetry"]
]

const workSections = (): ReadonlyArray<string> =>
  togetherWorks.map((names) =>
    section(
      names.join("; "),
      names.flatMap((name) =>
        works[name].map((column) => ({
          title: `${name}: ${code(paths[column.path].text)}`,
          path: column.path,
          cell: (failure: Failure) => workCellOf(column, failure)
        }))
      )
    )
  )

const wholeGroups = [...new Set(wholeFailures.map(({ group }) => group))]

const wholeTable = (): string =>
  tableOf(
    ["Operation", "Upstream", ...wholeGroups.map(groupName), "any other upstream"],
    (Object.keys(operations) as ReadonlyArray<OperationName>).flatMap((operation) => {
      const needed = Object.keys(whole[operation] ?? {}) as ReadonlyArray<UpstreamName>
      const other = unaffected[operation]
      return needed.length === 0
        ? [[operation, "none", ...wholeGroups.map(() => ""), other]]
        : needed.map((upstream) => [
            operation,
            upstream,
            ...wholeGroups.map((group) => wholeCellOf(operation, upstream, group) ?? ""),
            other
          ])
    })
  )

/** The failures of each group, for each upstream. A group of one failure with its own code explains itself. */
const failureTable = (): string => {
  const upstreams: ReadonlyArray<UpstreamName> = ["iam", "ting", "tables", "tracker"]
  const all = (Object.keys(paths) as ReadonlyArray<PathName>)
    // A read has nothing to commit: its failures are those of the other paths.
    .filter((path) => paths[path].method !== "GET" && path !== "introspect")
    .flatMap((path) =>
      failuresOf(path, "").map(({ group, id }) => ({ upstream: upstreamOf(path), group, id }))
    )
  const idsOf = (upstream: UpstreamName, group: string) => [
    ...new Set(all.filter((one) => one.upstream === upstream && one.group === group).map(({ id }) => id))
  ]
  const rows = [...new Set(all.map(({ group }) => group))].flatMap((group) => {
    const lists = upstreams.map((upstream) => idsOf(upstream, group).join("; "))
    const given = lists.filter((list) => list !== "")
    if (given.length === 1 && given[0]?.endsWith(` ${group}`) === true) return []
    return [[groupName(group), ...lists]]
  })
  return tableOf(
    ["Failures called", ...upstreams],
    [...rows].sort(([one = ""], [other = ""]) => rank(one) - rank(other))
  )
}

export const renderPage = (): string =>
  `${[
    "# Fault matrix",
    "",
    "What each operation answers, asks and leaves behind when a call to an upstream fails. The table is written by hand from [api.md](api.md), [durability.md](durability.md) and the [contracts](contracts);",
    "`test/proof/matrix` demands every cell of the real service, over real sockets. This page is written by `node --import tsx test/proof/matrix/Publish.ts`.",
    "",
    "## How to read a cell",
    "",
    "`503 dependency_unavailable, 5 s ×3; spent → 401 unauthenticated`",
    "",
    "- The answer: status and code, then the seconds of `Retry-After`. Every error is the envelope; its `retryable` is that of its code, and `dependency_unavailable` and `dependency_misconfigured` name the upstream.",
    "- `×3`: calls to the path that fails. Paths before it are called once, or as often as the brackets say; paths after it are not called.",
    "- After `;` what is left behind: a token is *spent* at IAM, a session is *live* or has *ended*, a recipient is *registered* at Ting (*unrecorded*: this service has no row yet), a ting is *delivered* once, a report is *stored*.",
    "- After `→` the answer to the same request under the same key when the failure is over and the seconds have passed. Without `→` it succeeds, and everything has happened **once**.",
    "- Where a cell says `×2` or more and only the first call fails, the request succeeds with the second call.",
    "- `†`: the upstream has done its work, and its answer is lost or spoiled. A read is the same before and after.",
    "- A clock that is 90 s off in the `Date` of one path changes nothing. A redirect is never followed to another origin.",
    "",
    "## Failures",
    "",
    failureTable(),
    "",
    "## One path fails",
    "",
    operationSections().join("\n\n"),
    "",
    "## A whole upstream fails",
    "",
    "`×` counts the calls to all its paths. A wrong clock is the upstream's own, not only its `Date`: proofs are refused, and the hint of the 502 names the clock.",
    "",
    wholeTable(),
    "",
    "## Background work",
    "",
    "The calls of one path fail for 35 s, from the first one on (for duplicates from the filing on, 200 s). A cell says what waits then, with the calls so far. When the failure is over, every report is filed once and every event is stored once;",
    "`→ failed`: only after an operator's retry. *Unknown*: the issue may exist, so the tracker is searched. *Leased*: a call is out. *Stopped*: no other report is sent either, except a probe every 5 minutes.",
    "",
    workSections().join("\n\n"),
    ""
  ].join("\n")}`
