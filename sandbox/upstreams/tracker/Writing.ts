/** Creating, updating and commenting on issues (issue-tracker.md 2): field rules and rights. */
import { isRecord } from "../Json.ts"
import type { Reply, Seen } from "../Simulator.ts"
import { accountOf, addIssue, type Issue, nextId, type Repository, type State, type Token } from "./Model.ts"
import {
  commentView,
  type FieldError,
  issueView,
  message,
  noPermission,
  validationFailed
} from "./Replies.ts"

/** The documented limit in characters and the measured one in bytes; both apply. */
const titleLimit = 256
const bodyCharacters = 65_536
const bodyBytes = 262_144

export interface Write {
  readonly state: State
  readonly token: Token
  readonly repository: Repository
  readonly base: string
  readonly request: Seen
}

type Fields = Readonly<Record<string, unknown>>

const readFields = (request: Seen): { readonly fields: Fields } | Reply => {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(request.body)
    const value: unknown = text === "" ? {} : JSON.parse(text)
    return isRecord(value) ? { fields: value } : message(400, "Body should be a JSON object")
  } catch {
    return message(400, "Problems parsing JSON")
  }
}

const problem = (field: string, code: FieldError["code"], text?: string, resource = "Issue"): FieldError => ({
  resource,
  field,
  code,
  ...(text === undefined ? {} : { message: text })
})

const titleProblem = (title: unknown): FieldError | undefined => {
  if (title === undefined || title === null || title === "") return problem("title", "missing_field")
  if (typeof title !== "string" && typeof title !== "number") return problem("title", "invalid")
  return [...String(title)].length > titleLimit
    ? problem("title", "custom", `title is too long (maximum is ${titleLimit} characters)`)
    : undefined
}

const isTooLong = (body: string): boolean =>
  [...body].length > bodyCharacters || Buffer.byteLength(body) > bodyBytes

const bodyProblem = (body: unknown, resource = "Issue"): FieldError | undefined => {
  if (body === undefined || body === null) return undefined
  if (typeof body !== "string") return problem("body", "invalid", undefined, resource)
  return isTooLong(body)
    ? problem("body", "custom", `body is too long (maximum is ${bodyCharacters} characters)`, resource)
    : undefined
}

/** The error when the token or the repository allows no writes. */
const writeError = ({ repository, token }: Write): Reply | undefined => {
  if (token.rights === "read") return noPermission
  if (repository.archived) return message(403, "Repository was archived so is read-only.")
  return undefined
}

/** Labels, assignees, milestones and types are not simulated and are ignored. */
export const createIssue = (write: Write): Reply => {
  const refused = writeError(write)
  if (refused !== undefined) return refused
  const read = readFields(write.request)
  if ("status" in read) return read
  const { fields } = read
  const problems = [titleProblem(fields.title), bodyProblem(fields.body)].filter(
    (found) => found !== undefined
  )
  if (problems.length > 0) return validationFailed(...problems)
  const issue = addIssue(write.state, write.repository, {
    login: write.token.login,
    title: String(fields.title),
    body: typeof fields.body === "string" ? fields.body : null,
    isPullRequest: false
  })
  const view = issueView(write.base, write.repository, issue)
  return { status: 201, headers: { location: view.url }, body: view }
}

const isState = (value: unknown): value is Issue["state"] => value === "open" || value === "closed"

export const updateIssue = (write: Write, issue: Issue): Reply => {
  const refused = writeError(write)
  if (refused !== undefined) return refused
  const read = readFields(write.request)
  if ("status" in read) return read
  const { fields } = read
  const problems = [
    fields.title === undefined ? undefined : titleProblem(fields.title),
    fields.state === undefined || isState(fields.state) ? undefined : problem("state", "invalid")
  ].filter((found) => found !== undefined)
  if (problems.length > 0) return validationFailed(...problems)
  const now = write.state.now()
  if (fields.title !== undefined) issue.title = String(fields.title)
  // An update ignores a body that is too long (issue-tracker.md 2).
  if (typeof fields.body === "string" && !isTooLong(fields.body)) issue.body = fields.body
  if (isState(fields.state) && fields.state !== issue.state) {
    issue.state = fields.state
    issue.closedAt = fields.state === "closed" ? now : null
    const reason = fields.state === "closed" ? (fields.state_reason ?? "completed") : null
    issue.stateReason = typeof reason === "string" ? reason : null
  }
  issue.updatedAt = now
  return { status: 200, body: issueView(write.base, write.repository, issue) }
}

export const createComment = (write: Write, issue: Issue): Reply => {
  const refused = writeError(write)
  if (refused !== undefined) return refused
  const read = readFields(write.request)
  if ("status" in read) return read
  const { body } = read.fields
  if (typeof body !== "string" || body === "")
    return validationFailed(problem("body", "missing_field", undefined, "IssueComment"))
  const found = bodyProblem(body, "IssueComment")
  if (found !== undefined) return validationFailed(found)
  const now = write.state.now()
  const comment = {
    id: nextId(write.state),
    user: accountOf(write.state, write.token.login),
    body,
    createdAt: now
  }
  issue.comments.push(comment)
  issue.updatedAt = now
  const view = commentView(write.base, write.repository, issue, comment)
  return { status: 201, headers: { location: view.url }, body: view }
}
