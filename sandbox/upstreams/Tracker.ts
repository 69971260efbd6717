/** The simulated issue tracker: GitHub's REST routes for issues (issue-tracker.md) with paging, limits, moves and lags. */
import { randomBytes } from "node:crypto"
import {
  type Fault,
  headerOf,
  type Now,
  type Reply,
  type Seen,
  type Simulator,
  startSimulator
} from "./Simulator.ts"
import { secondaryLimit } from "./tracker/Failures.ts"
import { Limits } from "./tracker/Limits.ts"
import {
  addIssue,
  addRepository,
  addToken,
  type Issue,
  makeState,
  type Rights,
  repositoryOf,
  type State,
  type Token
} from "./tracker/Model.ts"
import { badCredentials, message } from "./tracker/Replies.ts"
import { answerRoute } from "./tracker/Routes.ts"

export type { Issue, Rights, Token } from "./tracker/Model.ts"

/** GitHub's own error responses as faults, for `fail`. */
export const trackerFaults = {
  rateLimited: (seconds: number): Fault => secondaryLimit({ status: 429, retryAfter: seconds })
} as const

interface Times {
  /** Number of requests; default 1. */
  readonly times?: number
  /** Default `POST`. */
  readonly method?: string
}

export interface TrackerSimulator extends Simulator {
  /** Every token made or given, so that a test can search logs and databases for leaks. */
  readonly minted: Array<string>
  /** Issues of a repository by number, without pull requests and without the lag. */
  readonly issues: (repository: string) => ReadonlyArray<Issue>
  /** Files an issue as another account and returns its number. */
  readonly addIssue: (repository: string, content: { login: string; title: string; body?: string }) => number
  /** Adds a pull request, which lists include, and returns its number. */
  readonly addPullRequest: (
    repository: string,
    content?: { login?: string; title?: string; body?: string }
  ) => number
  /** Makes a token and returns it. */
  readonly addToken: (login: string, rights: Rights) => string
  readonly setRights: (token: string, rights: Rights) => void
  readonly revokeToken: (token: string) => void
  /** New issues are missing from lists for this long. */
  readonly setListLag: (seconds: number) => void
  /** Renames a repository. The old name redirects: 301 for reads, 307 for writes. */
  readonly move: (from: string, to: string) => void
  readonly disableIssues: (repository: string) => void
  readonly archive: (repository: string) => void
  readonly limits: {
    /** The next requests meet a secondary limit; `retryAfter` in seconds. */
    readonly secondary: (options?: Times & { retryAfter?: number; status?: 403 | 429 }) => void
  }
}

const versions: ReadonlyArray<string> = ["2022-11-28", "2026-03-10"]

const tokenOf = (state: State, request: Seen): Token | undefined => {
  const [, token = ""] = /^(?:bearer|token) (\S+)$/i.exec(headerOf(request, "authorization") ?? "") ?? []
  return state.tokens.get(token)
}

/** The checks before any route: user agent, token, version, limits. */
const authenticate = (state: State, limits: Limits, request: Seen): Token | Reply => {
  if ((headerOf(request, "user-agent") ?? "").trim() === "")
    return message(403, "Request forbidden by administrative rules. Send a User-Agent header.")
  const token = tokenOf(state, request)
  if (token === undefined) return badCredentials
  const version = headerOf(request, "x-github-api-version")
  if (version !== undefined && !versions.includes(version))
    return message(400, "The API version is not supported.")
  return limits.charge(token.login) ?? token
}

const fileFor = (
  state: State,
  name: string,
  isPullRequest: boolean,
  content: { login?: string; title?: string; body?: string }
): number =>
  addIssue(state, repositoryOf(state, name), {
    login: content.login ?? "somebody",
    title: content.title ?? "Change",
    body: content.body ?? null,
    isPullRequest
  }).number

const controls = (state: State) => ({
  issues: (name: string) => repositoryOf(state, name).issues.filter((issue) => !issue.isPullRequest),
  addIssue: (name: string, content: { login: string; title: string; body?: string }) =>
    fileFor(state, name, false, content),
  addPullRequest: (name: string, content: { login?: string; title?: string; body?: string } = {}) =>
    fileFor(state, name, true, content),
  addToken: (login: string, rights: Rights) => {
    const token = `github_pat_${randomBytes(41).toString("hex")}`
    addToken(state, { token, login, rights })
    return token
  },
  setRights: (token: string, rights: Rights) => {
    const known = state.tokens.get(token)
    if (known === undefined) throw new Error("no such token")
    state.tokens.set(token, { ...known, rights })
  },
  revokeToken: (token: string) => {
    state.tokens.delete(token)
  },
  setListLag: (seconds: number) => {
    state.listLag = seconds * 1000
  },
  move: (from: string, to: string) => {
    const repository = repositoryOf(state, from)
    const [owner = "", name = ""] = to.split("/")
    state.repositories.delete(from.toLowerCase())
    state.repositories.set(to.toLowerCase(), repository)
    repository.owner = owner
    repository.name = name
    state.moves.set(from.toLowerCase(), to)
    state.moves.delete(to.toLowerCase())
  },
  disableIssues: (name: string) => {
    repositoryOf(state, name).issuesEnabled = false
  },
  archive: (name: string) => {
    repositoryOf(state, name).archived = true
  }
})

interface TrackerOptions {
  readonly now: Now
  /** `owner/name` each. */
  readonly repositories: ReadonlyArray<string>
  readonly tokens: ReadonlyArray<Token>
}

/** A tracker without a socket, with empty repositories. */
export const makeTracker = (options: TrackerOptions) => {
  const state = makeState(options.now)
  const limits = new Limits(options.now)
  for (const name of options.repositories) addRepository(state, name)
  for (const token of options.tokens) addToken(state, token)

  const handle = (request: Seen): Reply => {
    const token = authenticate(state, limits, request)
    if ("status" in token) return token
    const reply = answerRoute(state, token, request)
    return { ...reply, headers: { ...limits.headers(token.login), ...reply.headers } }
  }

  return {
    handle,
    decorate: (request: Seen) => ({
      "content-type": "application/json; charset=utf-8",
      "x-github-request-id": randomBytes(16).toString("hex").toUpperCase(),
      ...limits.headers(tokenOf(state, request)?.login ?? "")
    }),
    minted: state.minted,
    ...controls(state)
  }
}

/** Starts a tracker with empty repositories. */
export const startTracker = async (options: TrackerOptions): Promise<TrackerSimulator> => {
  const { decorate, handle, ...rest } = makeTracker(options)
  const simulator = await startSimulator({ now: options.now, handle, decorate })

  return {
    ...simulator,
    ...rest,
    limits: {
      secondary: ({ method = "POST", retryAfter, status = 403, times = 1 } = {}) =>
        simulator.fail({ method, times, fault: secondaryLimit({ status, retryAfter }) })
    }
  }
}
