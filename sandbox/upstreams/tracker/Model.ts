/** The state of the simulated tracker: repositories, their issues and pull requests, and tokens. Times are milliseconds. */
import type { Now } from "../Simulator.ts"

/** A token's rights in every repository: `none` sees nothing (404), `read` may not write issues (403). */
export type Rights = "none" | "read" | "write"

export interface Token {
  readonly token: string
  readonly login: string
  readonly rights: Rights
}

export interface Account {
  readonly login: string
  readonly id: number
}

export interface Comment {
  readonly id: number
  readonly user: Account
  readonly body: string
  readonly createdAt: number
}

export interface Issue {
  readonly id: number
  readonly number: number
  readonly user: Account
  readonly createdAt: number
  readonly isPullRequest: boolean
  title: string
  body: string | null
  state: "open" | "closed"
  stateReason: string | null
  updatedAt: number
  closedAt: number | null
  readonly comments: Array<Comment>
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
  readonly minted: Array<string>
  readonly tokens: Map<string, Token>
  readonly accounts: Map<string, Account>
  /** By `owner/name` in lower case: names are compared without case. */
  readonly repositories: Map<string, Repository>
  /** The new name by the old one in lower case. */
  readonly moves: Map<string, string>
  lastId: number
  /** Milliseconds for which a new issue is missing from lists. */
  listLag: number
}

export const makeState = (now: Now): State => ({
  now,
  minted: [],
  tokens: new Map(),
  accounts: new Map(),
  repositories: new Map(),
  moves: new Map(),
  lastId: 2_900_000_000,
  listLag: 0
})

export const nextId = (state: State): number => {
  state.lastId += 1
  return state.lastId
}

export const accountOf = (state: State, login: string): Account => {
  const known = state.accounts.get(login.toLowerCase())
  if (known !== undefined) return known
  const account = { login, id: 90_000_001 + state.accounts.size }
  state.accounts.set(login.toLowerCase(), account)
  return account
}

export const addToken = (state: State, token: Token): void => {
  accountOf(state, token.login)
  state.minted.push(token.token)
  state.tokens.set(token.token, token)
}

const part = /^[A-Za-z0-9_.-]+$/

export const addRepository = (state: State, fullName: string): Repository => {
  const [owner = "", name = "", ...rest] = fullName.split("/")
  if (rest.length > 0 || ![owner, name].every((text) => part.test(text) && text !== "." && text !== ".."))
    throw new Error("a repository is owner/name")
  const repository: Repository = {
    owner,
    name,
    issues: [],
    issuesEnabled: true,
    archived: false
  }
  state.repositories.set(fullName.toLowerCase(), repository)
  return repository
}

/** A repository by name. Throws when it does not exist. */
export const repositoryOf = (state: State, fullName: string): Repository => {
  const repository = state.repositories.get(fullName.toLowerCase())
  if (repository === undefined) throw new Error(`no repository ${fullName}`)
  return repository
}

export const addIssue = (
  state: State,
  repository: Repository,
  content: {
    readonly login: string
    readonly title: string
    readonly body: string | null
    readonly isPullRequest: boolean
  }
): Issue => {
  const { login, ...rest } = content
  const issue: Issue = {
    ...rest,
    id: nextId(state),
    number: repository.issues.length + 1,
    user: accountOf(state, login),
    createdAt: state.now(),
    updatedAt: state.now(),
    state: "open",
    stateReason: null,
    closedAt: null,
    comments: []
  }
  repository.issues.push(issue)
  return issue
}
