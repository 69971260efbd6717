/** The simulated issue tracker: GitHub's REST routes for issues (issue-tracker.md), real paging, limits, moves and lags. */
import { randomBytes } from "node:crypto"
import { controlBody, controlRefusal, faultControls } from "./Controls.ts"
import { headerOf, type Now, type Reply, type Seen, type Simulator, startSimulator } from "./Simulator.ts"
import { failures, isTrackerFailure, secondaryLimit, type TrackerFailure } from "./tracker/Failures.ts"
import { Limits, type Resource } from "./tracker/Limits.ts"
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
import { answerRoute, resourceOf } from "./tracker/Routes.ts"

export type { TrackerFailure } from "./tracker/Failures.ts"
export type { Issue, Rights, Token } from "./tracker/Model.ts"

interface Times {
  /** How many requests; default 1. */
  readonly times?: number
  /** Default `POST`, since that is what must not be repeated blindly. */
  readonly method?: string
}

export interface TrackerSimulator extends Simulator {
  /** Every token made or given, so that a test can look for it where it must not be. */
  readonly minted: Array<string>
  /** Issues of a repository by number, pull requests left out; independent of every lag. */
  readonly issues: (repository: string) => ReadonlyArray<Issue>
  /** Files an issue as somebody else; its number. */
  readonly addIssue: (repository: string, content: { login: string; title: string; body?: string }) => number
  /** Takes a number as a pull request, which lists mix in. */
  readonly addPullRequest: (
    repository: string,
    content?: { login?: string; title?: string; body?: string }
  ) => number
  readonly addRepository: (repository: string) => void
  /** Makes a token and returns it. */
  readonly addToken: (login: string, rights: Rights) => string
  readonly setRights: (token: string, rights: Rights) => void
  readonly revokeToken: (token: string) => void
  /** A new issue is missing from lists for this long. */
  readonly setListLag: (seconds: number) => void
  readonly setSearchLag: (seconds: number) => void
  readonly setSearchIncomplete: (on: boolean) => void
  /** Labels are dropped even for those who may push. */
  readonly dropLabels: (on?: boolean) => void
  /** A label that the repository does not have yet is answered with 403. */
  readonly forbidUnknownLabels: (on?: boolean) => void
  /** Renames; the old name redirects, 301 for reads and 307 for writes unless told. */
  readonly move: (from: string, to: string, options?: { readStatus?: number; writeStatus?: number }) => void
  readonly disableIssues: (repository: string, on?: boolean) => void
  readonly archive: (repository: string, on?: boolean) => void
  readonly failNext: (failure: TrackerFailure, options?: Times) => void
  readonly limits: {
    /** The next requests meet a secondary limit. Seconds. */
    readonly secondary: (options?: Times & { retryAfter?: number; status?: 403 | 429 }) => void
    /** The primary limit is exhausted until that many seconds from now; default 3600. */
    readonly primary: (options?: { resetSeconds?: number; status?: 403 | 429 }) => void
    readonly clear: () => void
  }
}

const versions: ReadonlyArray<string> = ["2022-11-28", "2026-03-10"]

const tokenOf = (state: State, request: Seen): Token | undefined => {
  const [, token = ""] = /^(?:bearer|token) (\S+)$/i.exec(headerOf(request, "authorization") ?? "") ?? []
  return state.tokens.get(token)
}

/** The checks before any route: agent, token, version, limits. */
const enter = (state: State, limits: Limits, request: Seen, resource: Resource): Token | Reply => {
  if ((headerOf(request, "user-agent") ?? "").trim() === "")
    return message(403, "Request forbidden by administrative rules. Send a User-Agent header.")
  const token = tokenOf(state, request)
  if (token === undefined) return badCredentials
  const version = headerOf(request, "x-github-api-version")
  if (version !== undefined && !versions.includes(version))
    return message(400, "The API version is not supported.")
  return limits.charge(token.login, resource) ?? token
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
    labels: [],
    isPullRequest
  }).number

const switches = (state: State) => ({
  issues: (name: string) => repositoryOf(state, name).issues.filter((issue) => !issue.isPullRequest),
  addIssue: (name: string, content: { login: string; title: string; body?: string }) =>
    fileFor(state, name, false, content),
  addPullRequest: (name: string, content: { login?: string; title?: string; body?: string } = {}) =>
    fileFor(state, name, true, content),
  addRepository: (name: string) => {
    addRepository(state, name)
  },
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
  setSearchLag: (seconds: number) => {
    state.searchLag = seconds * 1000
  },
  setSearchIncomplete: (on: boolean) => {
    state.searchIncomplete = on
  },
  dropLabels: (on = true) => {
    state.labels = on ? "drop" : "keep"
  },
  forbidUnknownLabels: (on = true) => {
    state.labels = on ? "forbid-unknown" : "keep"
  },
  move: (from: string, to: string, options: { readStatus?: number; writeStatus?: number } = {}) => {
    const repository = repositoryOf(state, from)
    const [owner = "", name = ""] = to.split("/")
    state.repositories.delete(from.toLowerCase())
    state.repositories.set(to.toLowerCase(), repository)
    repository.owner = owner
    repository.name = name
    const { readStatus = 301, writeStatus = 307 } = options
    state.moves.set(from.toLowerCase(), { to, readStatus, writeStatus })
    state.moves.delete(to.toLowerCase())
  },
  disableIssues: (name: string, on = true) => {
    repositoryOf(state, name).issuesEnabled = !on
  },
  archive: (name: string, on = true) => {
    repositoryOf(state, name).archived = on
  }
})

/** Starts a tracker with empty repositories. */
export const startTracker = async (options: {
  readonly now: Now
  readonly port?: number
  /** `owner/name` each. */
  readonly repositories: ReadonlyArray<string>
  readonly tokens: ReadonlyArray<Token>
}): Promise<TrackerSimulator> => {
  const state = makeState(options.now)
  const limits = new Limits(options.now)
  for (const name of options.repositories) addRepository(state, name)
  for (const token of options.tokens) addToken(state, token)

  const control = (request: Seen): Reply => {
    const faults = faultControls(request, simulator.fail, simulator.clearFaults)
    if (faults !== undefined) return faults
    const body = controlBody(request)
    if (request.method !== "POST" || body === undefined) return controlRefusal("no such control")
    const { failure, times = 1, list, search } = body
    if (request.path === "/_sandbox/fail") {
      if (typeof failure !== "string" || !isTrackerFailure(failure) || typeof times !== "number")
        return controlRefusal(`failure is one of ${Object.keys(failures).join(", ")}; times a number`)
      failNext(failure, { times })
      return { status: 204 }
    }
    if (request.path !== "/_sandbox/lag") return controlRefusal("no such control")
    if (typeof list === "number") state.listLag = list * 1000
    if (typeof search === "number") state.searchLag = search * 1000
    return { status: 204 }
  }

  const handle = (request: Seen): Reply => {
    if (request.path.startsWith("/_sandbox/")) return control(request)
    const resource = resourceOf(request)
    const token = enter(state, limits, request, resource)
    if ("status" in token) return token
    const reply = answerRoute(state, token, request)
    return { ...reply, headers: { ...limits.headers(token.login, resource), ...reply.headers } }
  }

  const simulator = await startSimulator({
    now: options.now,
    handle,
    decorate: (request) => ({
      "content-type": "application/json; charset=utf-8",
      "x-github-request-id": randomBytes(16).toString("hex").toUpperCase(),
      ...limits.headers(tokenOf(state, request)?.login ?? "", resourceOf(request))
    }),
    ...(options.port === undefined ? {} : { port: options.port })
  })

  const failNext: TrackerSimulator["failNext"] = (failure, { method = "POST", times = 1 } = {}) =>
    simulator.fail({ method, times, fault: failures[failure] })

  return {
    ...simulator,
    minted: state.minted,
    ...switches(state),
    failNext,
    limits: {
      secondary: ({ method = "POST", retryAfter, status = 403, times = 1 } = {}) =>
        simulator.fail({ method, times, fault: secondaryLimit({ status, retryAfter }) }),
      primary: ({ resetSeconds = 3600, status = 403 } = {}) => limits.exhaust(resetSeconds, status),
      clear: () => limits.clear()
    }
  }
}
