/** The list of issues: filters, order, pages and their `Link` header (issue-tracker.md 4). */
import type { Reply, Seen } from "../Simulator.ts"
import type { Issue, Repository, State } from "./Model.ts"
import { issueView, validationFailed } from "./Replies.ts"

const order = {
  created: (issue: Issue) => issue.createdAt,
  updated: (issue: Issue) => issue.updatedAt,
  comments: (issue: Issue) => issue.comments.length
} as const

type Sort = keyof typeof order
const isSort = (text: string): text is Sort => Object.hasOwn(order, text)

/** To the second, as the API shows times. */
const seconds = (at: number): number => Math.floor(at / 1000)

/** Sorts by a key, then by number. */
const sorted = (issues: ReadonlyArray<Issue>, sort: string, direction: string): ReadonlyArray<Issue> => {
  const key = order[isSort(sort) ? sort : "created"]
  const factor = direction === "asc" ? 1 : -1
  return [...issues].sort((a, b) => factor * (key(a) - key(b) || a.number - b.number))
}

const positive = (text: string | null, absent: number): number =>
  text !== null && /^[1-9][0-9]{0,8}$/.test(text) ? Number(text) : absent

/** One page of the items, with links to the neighbouring pages. */
const paged = <A>(
  request: Seen,
  base: string,
  items: ReadonlyArray<A>
): { readonly page: ReadonlyArray<A>; readonly headers: Readonly<Record<string, string>> } => {
  const size = Math.min(positive(request.query.get("per_page"), 30), 100)
  const number = positive(request.query.get("page"), 1)
  const last = Math.max(1, Math.ceil(items.length / size))
  const page = items.slice((number - 1) * size, number * size)
  const link = (target: number, rel: string): string => {
    const query = new URLSearchParams(request.query)
    query.set("page", String(target))
    return `<${base}${request.path}?${query}>; rel="${rel}"`
  }
  const links = [
    ...(number > 1 ? [link(Math.min(number - 1, last), "prev")] : []),
    ...(number < last ? [link(number + 1, "next"), link(last, "last")] : []),
    ...(number > 1 ? [link(1, "first")] : [])
  ]
  return { page, headers: links.length === 0 ? {} : { link: links.join(", ") } }
}

const oneOf = (query: URLSearchParams, name: string, allowed: ReadonlyArray<string>): string | undefined => {
  const value = query.get(name) ?? allowed[0] ?? ""
  return allowed.includes(value) ? value : undefined
}

/** `GET /repos/{owner}/{repo}/issues`: includes pull requests; new issues are missing for the lag. */
export const listIssues = (state: State, repository: Repository, request: Seen, base: string): Reply => {
  const { query } = request
  const wanted = oneOf(query, "state", ["open", "closed", "all"])
  const sort = oneOf(query, "sort", ["created", "updated", "comments"])
  const direction = oneOf(query, "direction", ["desc", "asc"])
  const sinceText = query.get("since")
  const since = sinceText === null ? Number.NEGATIVE_INFINITY : Date.parse(sinceText) / 1000
  const invalid = [
    ["state", wanted === undefined],
    ["sort", sort === undefined],
    ["direction", direction === undefined],
    ["since", Number.isNaN(since)]
  ] as const
  const wrong = invalid.find(([, bad]) => bad)
  if (wrong !== undefined || wanted === undefined || sort === undefined || direction === undefined)
    return validationFailed({ resource: "Issue", field: wrong?.[0] ?? "state", code: "invalid" })
  const visible = repository.issues.filter(
    (issue) =>
      state.now() >= issue.createdAt + state.listLag &&
      (wanted === "all" || issue.state === wanted) &&
      seconds(issue.updatedAt) >= since
  )
  const { page, headers } = paged(request, base, sorted(visible, sort, direction))
  return { status: 200, headers, body: page.map((issue) => issueView(base, repository, issue)) }
}
