/** Listing, creating, updating and commenting on issues (issue-tracker.md 2 and 4): field rules, rights, pages. */
import { isRecord, type JsonObject, parseJson, type Reply, type Seen } from "../Contract.ts"
import {
  addIssue,
  type Issue,
  notFound,
  refuse,
  type Repository,
  type State,
  type Token,
  validationFailed
} from "./Model.ts"

/** One call of a token in a repository. */
export interface Call {
  readonly state: State
  readonly token: Token
  readonly repository: Repository
  readonly request: Seen
}

/** The documented limits in characters and the measured one in bytes; all apply. */
const titleLimit = 256
const bodyCharacters = 65_536
const bodyBytes = 262_144

/** The simulator's address as the caller reached it, so that links lead back to it. */
export const baseOf = (request: Seen): string => `http://${request.headers.get("host")?.[0] ?? "127.0.0.1"}`

/** ISO 8601 to the second. */
const instant = (at: number): string => new Date(at).toISOString().replace(/\.\d{3}Z$/, "Z")

const view = ({ repository, request }: Call, issue: Issue) => {
  const base = baseOf(request)
  const name = `${repository.owner}/${repository.name}`
  return {
    id: issue.id,
    number: issue.number,
    title: issue.title,
    state: issue.state,
    state_reason: issue.stateReason,
    html_url: `${base}/${name}/${issue.isPullRequest ? "pull" : "issues"}/${issue.number}`,
    url: `${base}/repos/${name}/issues/${issue.number}`,
    user: { login: issue.login },
    labels: [],
    body: issue.body,
    created_at: instant(issue.createdAt),
    updated_at: instant(issue.updatedAt),
    comments: issue.comments.length,
    ...(issue.isPullRequest ? { pull_request: { url: `${base}/repos/${name}/pulls/${issue.number}` } } : {})
  }
}

const positive = (text: string | null, absent: number): number =>
  text !== null && /^[1-9][0-9]{0,8}$/.test(text) ? Number(text) : absent

/** One page of the items, with links to the neighbouring pages. */
const paged = (request: Seen, items: ReadonlyArray<Issue>) => {
  const size = Math.min(positive(request.query.get("per_page"), 30), 100)
  const number = positive(request.query.get("page"), 1)
  const last = Math.max(1, Math.ceil(items.length / size))
  const link = (target: number, rel: string): string => {
    const query = new URLSearchParams(request.query)
    query.set("page", String(target))
    return `<${baseOf(request)}${request.path}?${query}>; rel="${rel}"`
  }
  const links = [
    ...(number > 1 ? [link(Math.min(number - 1, last), "prev"), link(1, "first")] : []),
    ...(number < last ? [link(number + 1, "next"), link(last, "last")] : [])
  ]
  return {
    page: items.slice((number - 1) * size, number * size),
    headers: links.length === 0 ? {} : { link: links.join(", ") }
  }
}

const invalid = (field: string) => validationFailed({ resource: "Issue", field, code: "invalid" })

const oneOf = (query: URLSearchParams, name: string, ...allowed: ReadonlyArray<string>): string => {
  const value = query.get(name) ?? allowed[0] ?? ""
  if (!allowed.includes(value)) throw invalid(name)
  return value
}

const second = (at: number): number => Math.floor(at / 1_000)

/** Includes pull requests; new issues are missing for the lag. `since` is of the last update, inclusive to the second. */
export const listIssues = (call: Call): Reply => {
  const { repository, request, state } = call
  const { query } = request
  const wanted = oneOf(query, "state", "open", "closed", "all")
  const sort = oneOf(query, "sort", "created", "updated") === "updated" ? "updatedAt" : "createdAt"
  const factor = oneOf(query, "direction", "desc", "asc") === "asc" ? 1 : -1
  const since = Date.parse(query.get("since") ?? "1970-01-01T00:00:00Z")
  if (Number.isNaN(since)) throw invalid("since")
  const visible = repository.issues
    .filter(
      (issue) =>
        state.now() >= issue.createdAt + state.listLag &&
        (wanted === "all" || issue.state === wanted) &&
        second(issue.updatedAt) >= second(since)
    )
    .sort((one, other) => factor * (one[sort] - other[sort] || one.number - other.number))
  const { headers, page } = paged(request, visible)
  return { status: 200, headers, body: page.map((issue) => view(call, issue)) }
}

/** The fields of a write; first whether the token and the repository allow one. */
const readWrite = ({ repository, request, token }: Call): JsonObject => {
  // The header names the missing permission, which distinguishes this 403 from a rate limit.
  if (token.rights !== "write")
    throw refuse(403, "Resource not accessible by personal access token", {
      "x-accepted-github-permissions": "issues=write"
    })
  if (repository.archived) throw refuse(403, "Repository was archived so is read-only.")
  const json = request.body.length === 0 ? {} : parseJson(request.body)
  if (json === undefined) throw refuse(400, "Problems parsing JSON")
  if (!isRecord(json)) throw refuse(400, "Body should be a JSON object")
  return json
}

const isTooLong = (body: string): boolean =>
  [...body].length > bodyCharacters || Buffer.byteLength(body) > bodyBytes

const readTitle = (title: unknown): string => {
  if (title === undefined || title === null || title === "")
    throw validationFailed({ resource: "Issue", field: "title", code: "missing_field" })
  if (typeof title !== "string") throw invalid("title")
  if ([...title].length > titleLimit)
    throw validationFailed({
      resource: "Issue",
      field: "title",
      code: "custom",
      message: "title is too long"
    })
  return title
}

const readBody = (body: unknown, resource: "Issue" | "IssueComment"): string | null => {
  if (body === undefined || body === null) return null
  if (typeof body !== "string") throw validationFailed({ resource, field: "body", code: "invalid" })
  if (isTooLong(body))
    throw validationFailed({ resource, field: "body", code: "custom", message: "body is too long" })
  return body
}

/** Labels, assignees, milestones and types are not simulated and are ignored. */
export const createIssue = (call: Call): Reply => {
  const fields = readWrite(call)
  const issue = addIssue(call.state, call.repository, {
    login: call.token.login,
    title: readTitle(fields.title),
    body: readBody(fields.body, "Issue"),
    isPullRequest: false
  })
  const shown = view(call, issue)
  return { status: 201, headers: { location: shown.url }, body: shown }
}

const issueOf = ({ repository }: Call, number: string): Issue => {
  const issue = repository.issues[Number(number) - 1]
  if (issue === undefined) throw notFound()
  return issue
}

export const updateIssue = (call: Call, number: string): Reply => {
  const issue = issueOf(call, number)
  const fields = readWrite(call)
  const { body, state = issue.state, state_reason: reason = "completed" } = fields
  const title = fields.title === undefined ? issue.title : readTitle(fields.title)
  if (state !== "open" && state !== "closed") throw invalid("state")
  // An update ignores a body that is too long (issue-tracker.md 2).
  if (typeof body === "string" && !isTooLong(body)) issue.body = body
  issue.title = title
  if (state !== issue.state) issue.stateReason = state === "closed" ? String(reason) : null
  issue.state = state
  issue.updatedAt = call.state.now()
  return { status: 200, body: view(call, issue) }
}

export const createComment = (call: Call, number: string): Reply => {
  const issue = issueOf(call, number)
  const body = readBody(readWrite(call).body, "IssueComment") ?? ""
  if (body === "") throw validationFailed({ resource: "IssueComment", field: "body", code: "missing_field" })
  issue.comments.push(body)
  issue.updatedAt = call.state.now()
  return { status: 201, body: { id: issue.id * 1_000 + issue.comments.length, body } }
}

const escaped = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")

/** The issue for a person, at the address of `html_url`. */
export const issuePage = ({ body, comments, number, state, title }: Issue): Reply => {
  const texts = [body ?? "", ...comments].map((text) => `<pre>${escaped(text)}</pre>`)
  return {
    status: 200,
    headers: {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
      "x-content-type-options": "nosniff"
    },
    body: `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>#${number}</title><style>:root{color-scheme:light dark;font-family:system-ui}pre{white-space:pre-wrap;overflow-wrap:anywhere}</style></head>
<body><main><h1><bdi>${escaped(title)}</bdi></h1><p>#${number}, ${state}</p>${texts.join("")}</main></body></html>
`
  }
}
