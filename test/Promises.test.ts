/** Each promise of the documents names the tests that prove it: docs/promises.md. */
import { existsSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import ts from "typescript"
import { describe, expect, it } from "vitest"

/** Each unit of these has a row. */
const complete: ReadonlyArray<string> = [
  "api.md",
  "durability.md",
  "client.md",
  "cli.md",
  "operations.md",
  "postgresql.md",
  "security.md",
  "observability.md",
  "README.md",
  "getting-started.md"
]

/** These may have units without a row. */
const partial: ReadonlyArray<string> = ["architecture.md", "design.md"]

/** Sections of complete documents that need no rows, each with its reason. */
const exempt: Readonly<Record<string, string>> = {
  "durability.md: Runs": "figures of runs that were made",
  "postgresql.md: Recovery times": "figures of a run that was made"
}

/** A list item, a row of a table or a paragraph; `text` is plain, without marks. */
interface Unit {
  readonly kind: "item" | "row" | "paragraph"
  readonly line: number
  readonly cells: ReadonlyArray<string>
  readonly text: string
}

interface Section {
  readonly name: string
  readonly units: ReadonlyArray<Unit>
}

interface Row {
  readonly line: number
  readonly beginning: string
  readonly proofs: string
}

const plain = (markdown: string): string =>
  markdown
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/[`*]/g, "")
    .replace(/\s+/g, " ")
    .trim()

const cellsOf = (line: string): ReadonlyArray<string> =>
  line
    .trim()
    .replace(/^\||\|$/g, "")
    .split(/(?<!\\)\|/)
    .map((cell) => cell.replaceAll("\\|", "|").trim())

/** The units below each heading. Headings that occur twice have their parent's name in front. */
const sectionsOf = (markdown: string): ReadonlyArray<Section> => {
  const found: Array<{ name: string; parent: string; units: Array<Unit> }> = []
  const above: Array<string> = []
  let open: { kind: "item" | "paragraph"; line: number; text: string } | undefined
  let fence: string | undefined
  let comment = false
  const close = () => {
    if (open !== undefined) {
      const text = plain(open.text)
      found.at(-1)?.units.push({ kind: open.kind, line: open.line, cells: [text], text })
    }
    open = undefined
  }
  const lines = markdown.split("\n")
  for (const [index, line] of lines.entries()) {
    const mark = /^\s*(```+|~~~+)/.exec(line)?.[1]
    if (fence !== undefined) {
      if (mark?.startsWith(fence) === true) fence = undefined
      continue
    }
    if (comment || line.trimStart().startsWith("<!--")) {
      close()
      comment = !line.includes("-->")
      continue
    }
    const heading = /^(#+) (.*)$/.exec(line)
    const item = /^\s*(?:[-*+]|\d+\.) (.*)$/.exec(line)
    if (mark !== undefined) {
      close()
      fence = mark
    } else if (heading !== null) {
      close()
      const depth = heading[1]?.length ?? 1
      const name = plain(heading[2] ?? "")
      above.length = depth - 1
      found.push({ name, parent: above.filter((each) => each !== undefined).at(-1) ?? "", units: [] })
      above[depth - 1] = name
    } else if (line.trim() === "" || line.startsWith(">")) close()
    else if (line.trimStart().startsWith("|")) {
      close()
      const isHeader = /^\s*\|[\s|:-]+\|?\s*$/.test(lines[index + 1] ?? "")
      if (isHeader || /^\s*\|[\s|:-]+\|?\s*$/.test(line)) continue
      const cells = cellsOf(line)
      const text = plain(cells.join(" · "))
      found.at(-1)?.units.push({ kind: "row", line: index + 1, cells, text })
    } else if (item !== null) {
      close()
      open = { kind: "item", line: index + 1, text: item[1] ?? "" }
    } else if (open === undefined) open = { kind: "paragraph", line: index + 1, text: line }
    else open.text += `\n${line}`
  }
  close()
  return found.map(({ name, parent, units }) => ({
    name: found.filter((other) => other.name === name).length > 1 ? `${parent} / ${name}` : name,
    units
  }))
}

const root = new URL("../", import.meta.url)
const fileOf = (document: string) => new URL(document === "README.md" ? document : `docs/${document}`, root)
const read = (file: URL) => readFileSync(file, "utf8")

/** `onBoth` is a block for each database (test/layers/store/Stores.ts). */
const isTest = (name: string) => /^(?:it|test|describe|onBoth)$/.test(name)
const skips = /\b(?:skip|todo|fails|skipIf|runIf)\b/

/** Files that are no tests themselves, and whose string literals are names of checks or messages of failures. */
const checkFiles: ReadonlyArray<string> = [
  "client/suite/Scenarios.ts",
  "durability/Storm.ts",
  "durability/Laws.ts"
]

/** What is called, without `.effect`, `.each(…)` and the like. */
const rootOf = (node: ts.Expression): ts.Expression =>
  ts.isPropertyAccessExpression(node)
    ? rootOf(node.expression)
    : ts.isCallExpression(node)
      ? rootOf(node.expression)
      : ts.isTaggedTemplateExpression(node)
        ? rootOf(node.tag)
        : node

/** The names between what is called and its arguments: `scoped each`. */
const modifiersOf = (node: ts.Expression): string =>
  ts.isPropertyAccessExpression(node)
    ? `${modifiersOf(node.expression)} ${node.name.text}`
    : ts.isCallExpression(node)
      ? modifiersOf(node.expression)
      : ts.isTaggedTemplateExpression(node)
        ? modifiersOf(node.tag)
        : ""

const literalOf = (node: ts.Node | undefined): string | undefined =>
  node === undefined
    ? undefined
    : ts.isStringLiteralLike(node)
      ? node.text
      : ts.isTemplateExpression(node)
        ? node.getText().slice(1, -1)
        : undefined

const nodesOf = (node: ts.Node): ReadonlyArray<ts.Node> => {
  const all: Array<ts.Node> = []
  const visit = (each: ts.Node) => {
    all.push(each)
    ts.forEachChild(each, visit)
  }
  visit(node)
  return all
}

/** The function of the file that passes this parameter on as a title: its name, and the parameter's place. */
const wrapperOf = (title: ts.Identifier): readonly [string, number] | undefined => {
  for (let node: ts.Node = title; node.parent !== undefined; node = node.parent) {
    if (!ts.isArrowFunction(node) && !ts.isFunctionDeclaration(node)) continue
    const at = node.parameters.findIndex(({ name }) => name.getText() === title.text)
    if (at === -1) continue
    const name = ts.isVariableDeclaration(node.parent) ? node.parent.name : node.name
    return name === undefined ? undefined : [name.getText(), at]
  }
  return undefined
}

/** An options object such as `{ skip: true }`. */
const hasSkipOption = ({ arguments: given }: ts.CallExpression): boolean =>
  given.some(
    (each) =>
      ts.isObjectLiteralExpression(each) &&
      each.properties.some(({ name }) => name !== undefined && skips.test(name.getText()))
  )

/** Whether a function among the arguments does something; a function by its name does. */
const hasBody = ({ arguments: given }: ts.CallExpression): boolean =>
  given.slice(1).some((each) => {
    if (!ts.isArrowFunction(each) && !ts.isFunctionExpression(each))
      return !ts.isObjectLiteralExpression(each)
    return !ts.isBlock(each.body) || each.body.statements.length > 0
  })

/**
 * Titles of the tests of a file that run and do something, and of the blocks that hold such a test; of a file of checks its string
 * literals. Whether a function that holds a test is called is not known here.
 */
const titlesOf = (file: string, text: string): ReadonlySet<string> => {
  const nodes = nodesOf(ts.createSourceFile(file, text, ts.ScriptTarget.ES2022, true))
  if (checkFiles.includes(file)) return new Set(nodes.flatMap((node) => literalOf(node) ?? []))
  if (!/\.(?:test|slow)\.ts$/.test(file)) return new Set()
  const nameOf = (call: ts.CallExpression): string => {
    const called = rootOf(call.expression)
    return ts.isIdentifier(called) ? called.text : ""
  }
  // A call with a title as its last parentheses: `it.each(rows)` in `it.each(rows)("title", …)` is no test.
  const calls = nodes
    .filter(ts.isCallExpression)
    .filter(
      (call) => nameOf(call) !== "" && !(ts.isCallExpression(call.parent) && call.parent.expression === call)
    )
  const wrappers = new Map<string, number>()
  for (const call of calls) {
    const [title] = call.arguments
    if (!isTest(nameOf(call)) || title === undefined || !ts.isIdentifier(title)) continue
    const wrapper = wrapperOf(title)
    if (wrapper !== undefined) wrappers.set(...wrapper)
  }
  const isTestCall = (call: ts.CallExpression) => isTest(nameOf(call)) || wrappers.has(nameOf(call))
  const isSkipped = (call: ts.CallExpression) =>
    skips.test(modifiersOf(call.expression)) || hasSkipOption(call)
  const testsAround = (node: ts.Node): ReadonlyArray<ts.CallExpression> =>
    node.parent === undefined
      ? []
      : [
          ...(ts.isCallExpression(node.parent) && isTestCall(node.parent) ? [node.parent] : []),
          ...testsAround(node.parent)
        ]
  const run = calls.filter((call) => isTestCall(call) && ![call, ...testsAround(call)].some(isSkipped))
  const isBlock = (call: ts.CallExpression) => /^(?:describe|onBoth)$/.test(nameOf(call))
  // A wrapper has its test's body inside.
  const tests = run.filter((call) => !isBlock(call) && (wrappers.has(nameOf(call)) || hasBody(call)))
  const counted = run.filter((call) =>
    isBlock(call) ? tests.some((test) => testsAround(test).includes(call)) : tests.includes(call)
  )
  return new Set(counted.flatMap((call) => literalOf(call.arguments[wrappers.get(nameOf(call)) ?? 0]) ?? []))
}

const known = new Map<string, ReadonlySet<string> | undefined>()
const titles = (name: string): ReadonlySet<string> | undefined => {
  if (!known.has(name)) {
    const places = name.startsWith("bench/") ? [`test/${name}`, name] : [`test/${name}`]
    const file = places.map((place) => new URL(place, root)).find((place) => existsSync(fileURLToPath(place)))
    known.set(name, file === undefined ? undefined : titlesOf(name, read(file)))
  }
  return known.get(name)
}

const withoutProof: ReadonlyArray<string> = ["definition", "advice", "pointer"]
const otherRows = "(other rows)"

const faultsOfProof = (proof: string): ReadonlyArray<string> => {
  const [, file = "", title] = /^`([^`]+\.(?:ts|mjs))`: (\S.*)$/.exec(proof) ?? []
  if (title === undefined)
    return [`"${proof}" is no proof: write \`<file below test/>\`: <title>, or definition, advice or pointer`]
  const there = titles(file)
  if (there === undefined) return [`there is no file ${file} below test/ (or bench/)`]
  return there.has(title) ? [] : [`no test or block of ${file} is called "${title}"`]
}

const faultsOfProofs = ({ beginning, proofs }: Row): ReadonlyArray<string> =>
  beginning !== otherRows && withoutProof.includes(proofs)
    ? []
    : proofs.split(/; (?=`[^`]+\.(?:ts|mjs)`: )/).flatMap(faultsOfProof)

/** The units that a row speaks of. */
const unitsOf = ({ beginning }: Row, section: Section, rows: ReadonlyArray<Row>): ReadonlyArray<Unit> =>
  beginning === otherRows
    ? section.units.filter(
        (unit) =>
          unit.kind === "row" &&
          !rows.some((row) => row.beginning !== otherRows && unit.text.startsWith(row.beginning))
      )
    : section.units.filter(({ text }) => text.startsWith(beginning))

const faultsOf = (
  promises: string,
  documents: Readonly<Record<"complete" | "partial", ReadonlyArray<string>>>,
  textOf: (document: string) => string
): ReadonlyArray<string> => {
  const tables = sectionsOf(promises)
    .filter(({ units }) => units.some(({ kind }) => kind === "row"))
    .map(({ name, units }) => ({
      name,
      rows: units
        .filter(({ kind }) => kind === "row")
        .map(({ cells: [beginning = "", proofs = ""], line }) => ({
          line,
          beginning: plain(beginning).replace(/ ?…$/, ""),
          proofs
        }))
    }))
  const sections = [...documents.complete, ...documents.partial].flatMap((document) =>
    sectionsOf(textOf(document)).map((section) => ({
      document,
      section,
      name: `${document}: ${section.name}`
    }))
  )
  const ofTables = tables.flatMap(({ name, rows }) => {
    const found = sections.filter((each) => each.name === name)
    const [only] = found
    if (only === undefined || found.length > 1)
      return [`"${name}" names ${found.length} sections of the documents: name one`]
    return rows.flatMap((row) => {
      const units = unitsOf(row, only.section, rows)
      const fault =
        units.length === 0
          ? ["begins no unit of its section: mend it, or remove it"]
          : units.length > 1 && row.beginning !== otherRows
            ? [`begins ${units.length} units of its section: make it longer`]
            : []
      return [...fault, ...faultsOfProofs(row)].map(
        (what) => `promises.md:${row.line}, ${name}, "${row.beginning}": ${what}`
      )
    })
  })
  const ofUnits = sections
    .filter(({ document, name }) => documents.complete.includes(document) && exempt[name] === undefined)
    .flatMap(({ document, name, section }) => {
      const rows = tables.filter((table) => table.name === name).flatMap((table) => table.rows)
      const covered = new Set(rows.flatMap((row) => unitsOf(row, section, rows)))
      return section.units
        .filter((unit) => !covered.has(unit))
        .map(
          ({ line, text }) =>
            `${document}:${line}, "${text.slice(0, 80)}": has no row in promises.md below "${name}"`
        )
    })
  return [...ofTables, ...ofUnits]
}

describe("Promises of the documents", () => {
  it("each name the tests that prove them", () => {
    const promises = read(fileOf("promises.md"))
    expect(faultsOf(promises, { complete, partial }, (document) => read(fileOf(document)))).toEqual([])
    const names = [...complete, ...partial].flatMap((document) =>
      sectionsOf(read(fileOf(document))).map(({ name }) => `${document}: ${name}`)
    )
    expect(Object.keys(exempt).filter((name) => !names.includes(name))).toEqual([])
  })

  const document = `# Page\n\nA paragraph\nof two lines.\n\n* Item one, \`code\`.\n* Item two, [a link](x.md).\n\n| A | B |\n|---|---|\n| \`a\\|b\` | one |\n| c | two |\n`
  const proof = "`Promises.test.ts`: each name the tests that prove them"
  const lines = [
    `| A paragraph of … | definition |`,
    `| Item one, \`code\` … | ${proof}; ${proof} |`,
    `| Item two, a link. | ${proof} |`,
    `| a\\|b · one | ${proof} |`,
    `| ${otherRows} | ${proof} |`
  ]
  const faults = (rows: ReadonlyArray<string>, heading = "page.md: Page") =>
    faultsOf(
      `## ${heading}\n\n| Promise | Proved by |\n|---|---|\n${rows.join("\n")}\n`,
      { complete: ["page.md"], partial: [] },
      () => document
    )

  it("are accepted when each unit has a row with a proof", () => {
    expect(faults(lines)).toEqual([])
  })

  it.each([
    ["no proof", "| Item one … |  |", `"Item one": "" is no proof`],
    ["a proof of another form", "| Item one … | see the tests |", `"Item one": "see the tests" is no proof`],
    ["a missing file", "| Item one … | `None.test.ts`: title |", `"Item one": there is no file None.test.ts`],
    [
      "a title that no test has",
      "| Item one … | `Promises.test.ts`: A paragraph |",
      `"Item one": no test or block of Promises.test.ts is called "A paragraph"`
    ],
    ["a beginning of no unit", `| Item three … | ${proof} |`, `"Item three": begins no unit`],
    ["a beginning of two units", `| Item … | ${proof} |`, `"Item": begins 2 units`]
  ])("are refused with %s", (_, row, message) => {
    expect(faults([...lines, row]).join("\n")).toContain(`promises.md:10, page.md: Page, ${message}`)
  })

  it("are refused when a unit has no row, or a heading names no section", () => {
    expect(faults(lines.slice(0, -1))).toEqual([
      `page.md:12, "c · two": has no row in promises.md below "page.md: Page"`
    ])
    expect(faults(lines, "page.md: Other")[0]).toContain(`"page.md: Other" names 0 sections`)
  })

  it("count only tests that run and do something, and blocks that hold one", () => {
    const source = `
      describe("block", () => { it("runs", () => { check() }); it("empty", () => {}) })
      describe.skip("skipped block", () => { it("in a skipped block", () => { check() }) })
      describe("hollow", () => { it.todo("later") })
      it.skipIf(slow)("skipped if", () => { check() })
      it.runIf(slow)("run if", () => { check() })
      it("skip option", { skip: true }, () => { check() })
      it("todo option", { todo: true }, () => { check() })
      it.each([1])("each %s", () => check())
      const named = (title: string) => it.effect(title, () => check())
      named("by a wrapper")
      check("a literal")`
    expect([...titlesOf("Some.test.ts", source)]).toEqual(["block", "runs", "each %s", "by a wrapper"])
    expect([...titlesOf("Some.ts", source)]).toEqual([])
  })
})
