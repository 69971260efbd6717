/** The state of the simulated tracker: repositories, their issues and pull requests, and tokens. Times are milliseconds. */
import { type Now, Refusal, type Reply } from "../Contract.ts"

/** A token's rights in every repository: `none` sees nothing (404), `read` may not write issues (403). */
export type Rights = "none" | "read" | "write"

export interface Token {
  readonly token: string
  readonly login: string
  rights: Rights
}

export interface Issue {
  readonly id: number
  readonly number: number
  readonly login: string
  readonly createdAt: number
  readonly isPullRequest: boolean
  title: string
  body: string | null
  state: "open" | "closed"
  stateReason: string | null
  updatedAt: number
  readonly comments: Array<string>
}

export interface Repository {
  owner: string
  name: string
  /** Numbers rise per repository and are shared with pull requests. */
  readonly issues: Array<Issue>
  issuesEnabled: boolean
  archived: boolean
}

export interface State {
  readonly now: Now
  readonly tokens: Map<string, Token>
  /** By `owner/name` in lower case: names are compared without case. */
  readonly repositories: Map<string, Repository>
  /** The new name by the old one in lower case. */
  readonly moves: Map<string, string>
  lastId: number
  /** Milliseconds for which a new issue is missing from lists. */
  listLag: number
}

export const addRepository = ({ repositories }: State, fullName: string): void => {
  const [owner = "", name = ""] = fullName.split("/")
  const repository = { owner, name, issues: [], issuesEnabled: true, archived: false }
  repositories.set(fullName.toLowerCase(), repository)
}

/** A repository by name. Throws when it does not exist. */
export const repositoryOf = ({ repositories }: State, fullName: string): Repository => {
  const repository = repositories.get(fullName.toLowerCase())
  if (repository === undefined) throw new Error(`no repository ${fullName}`)
  return repository
}

export const addIssue = (
  state: State,
  repository: Repository,
  content: Pick<Issue, "login" | "title" | "body" | "isPullRequest">
): Issue => {
  state.lastId += 1
  const now = state.now()
  const issue: Issue = {
    ...content,
    id: state.lastId,
    number: repository.issues.length + 1,
    createdAt: now,
    updatedAt: now,
    state: "open",
    stateReason: null,
    comments: []
  }
  repository.issues.push(issue)
  return issue
}

/** An error with only a message (issue-tracker.md 3). */
export const message = (
  status: number,
  text: string,
  headers: Readonly<Record<string, string>> = {}
): Reply => ({ status, headers, body: { message: text, status: String(status) } })

export const refuse = (...given: Parameters<typeof message>): Refusal => new Refusal(message(...given))

export const notFound = () => refuse(404, "Not Found")

interface FieldError {
  readonly resource: "Issue" | "IssueComment"
  readonly field: string
  readonly code: "missing_field" | "invalid" | "unprocessable" | "custom"
  readonly message?: string
}

export const validationFailed = (...errors: ReadonlyArray<FieldError>): Refusal =>
  new Refusal({ status: 422, body: { message: "Validation Failed", errors, status: "422" } })
