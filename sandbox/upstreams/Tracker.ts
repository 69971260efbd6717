/** The simulated issue tracker: GitHub's REST routes for issues (issue-tracker.md) with paging, limits, moves and lags. */
import { randomBytes } from "node:crypto"
import {
  type Contract,
  handleBy,
  headerOf,
  type Now,
  type Reply,
  type Routes,
  type Seen
} from "./Contract.ts"
import { type Fault, faults, type Listening, type Simulator, startSimulator } from "./Simulator.ts"
import {
  baseOf,
  type Call,
  createComment,
  createIssue,
  issuePage,
  listIssues,
  updateIssue
} from "./tracker/Issues.ts"
import {
  addIssue,
  addRepository,
  type Issue,
  message,
  notFound,
  refuse,
  repositoryOf,
  type Repository,
  type Rights,
  type State,
  type Token,
  validationFailed
} from "./tracker/Model.ts"

export type { Issue } from "./tracker/Model.ts"

const { reply: gateway } = faults.status(502, "<html>This page is taking too long to load.</html>", {
  "content-type": "text/html"
})

/** GitHub's own errors as faults, for `fail` (issue-tracker.md 3). */
export const trackerFaults = {
  /** A secondary limit: the request is not executed. */
  rateLimited: (seconds: number): Fault => ({
    kind: "reply",
    reply: message(429, "You have exceeded a secondary rate limit.", { "retry-after": String(seconds) })
  }),
  spammed: {
    kind: "reply",
    reply: validationFailed({
      resource: "Issue",
      field: "base",
      code: "unprocessable",
      message: "The listed endpoint has been spammed."
    }).reply
  },
  /** The edge gives up after the request was executed. */
  badGatewayAfter: { kind: "reply-after", reply: gateway }
} as const satisfies Record<string, Fault | ((seconds: number) => Fault)>

/** Requests of an account in a window, and the window in milliseconds (issue-tracker.md 3). */
const limit = 5_000
const windowLength = 3_600_000

const versions: ReadonlyArray<string> = ["2022-11-28", "2026-03-10"]

type Content = Readonly<Partial<Record<"login" | "title" | "body", string>>>

const makeControls = (state: State) => {
  const file = (name: string, isPullRequest: boolean, content: Content): number => {
    const { body = null, login = "somebody", title = "Change" } = content
    return addIssue(state, repositoryOf(state, name), { login, title, body, isPullRequest }).number
  }
  return {
    /** Issues of a repository by number, without pull requests and without the lag. */
    issues: (name: string): ReadonlyArray<Issue> =>
      repositoryOf(state, name).issues.filter((issue) => !issue.isPullRequest),
    /** Files an issue as another account and returns its number. */
    addIssue: (name: string, content: Content) => file(name, false, content),
    /** Adds a pull request, which lists include, and returns its number. */
    addPullRequest: (name: string, content: Content) => file(name, true, content),
    setRights: (token: string, rights: Rights) => {
      const known = state.tokens.get(token)
      if (known === undefined) throw new Error("no such token")
      known.rights = rights
    },
    revokeToken: (token: string) => {
      state.tokens.delete(token)
    },
    /** New issues are missing from lists for this long. */
    setListLag: (seconds: number) => {
      state.listLag = seconds * 1_000
    },
    /** Renames a repository. The old name redirects: 301 for reads, 307 for writes. */
    move: (from: string, to: string) => {
      const repository = repositoryOf(state, from)
      const [owner = "", name = ""] = to.split("/")
      state.repositories.delete(from.toLowerCase())
      state.repositories.set(to.toLowerCase(), Object.assign(repository, { owner, name }))
      state.moves.set(from.toLowerCase(), to)
    },
    disableIssues: (name: string) => {
      repositoryOf(state, name).issuesEnabled = false
    },
    archive: (name: string) => {
      repositoryOf(state, name).archived = true
    }
  }
}

interface TrackerOptions {
  readonly now: Now
  /** `owner/name` each. */
  readonly repositories: ReadonlyArray<string>
  readonly tokens: ReadonlyArray<Token>
}

/** A tracker without a socket, with empty repositories. */
export const makeTracker = ({ now, repositories, tokens }: TrackerOptions) => {
  const state: State = {
    now,
    tokens: new Map(tokens.map((token) => [token.token, { ...token }])),
    repositories: new Map(),
    moves: new Map(),
    lastId: 2_900_000_000,
    listLag: 0
  }
  for (const name of repositories) addRepository(state, name)
  const windows = new Map<string, { readonly resetAt: number; used: number }>()

  const windowOf = (login: string) => {
    const known = windows.get(login)
    if (known !== undefined && now() < known.resetAt) return known
    const fresh = { resetAt: now() + windowLength, used: 0 }
    windows.set(login, fresh)
    return fresh
  }
  const tokenOf = (request: Seen): Token | undefined => {
    const [, token = ""] = /^(?:bearer|token) (\S+)$/i.exec(headerOf(request, "authorization") ?? "") ?? []
    return state.tokens.get(token)
  }
  const decorate = (request: Seen): Readonly<Record<string, string>> => {
    const { resetAt, used } = windowOf(tokenOf(request)?.login ?? "")
    return {
      "content-type": "application/json; charset=utf-8",
      "x-github-request-id": randomBytes(16).toString("hex").toUpperCase(),
      "x-ratelimit-limit": String(limit),
      "x-ratelimit-remaining": String(Math.max(0, limit - used)),
      "x-ratelimit-used": String(used),
      "x-ratelimit-reset": String(Math.ceil(resetAt / 1_000)),
      "x-ratelimit-resource": "core"
    }
  }

  /** The checks before any route: user agent, token, version, limit. */
  const authenticate = (request: Seen): Token => {
    if ((headerOf(request, "user-agent") ?? "").trim() === "")
      throw refuse(403, "Request forbidden by administrative rules. Send a User-Agent header.")
    const token = tokenOf(request)
    if (token === undefined) throw refuse(401, "Bad credentials")
    const version = headerOf(request, "x-github-api-version")
    if (version !== undefined && !versions.includes(version))
      throw refuse(400, "The API version is not supported.")
    const window = windowOf(token.login)
    if (window.used >= limit) throw refuse(403, "API rate limit exceeded for this user.")
    window.used += 1
    return token
  }

  /** A repository that the token may not see answers like one that does not exist. */
  const repositoryFor = (request: Seen, token: Token, owner = "", name = ""): Repository => {
    const fullName = `${owner}/${name}`.toLowerCase()
    if (token.rights === "none") throw notFound()
    const to = state.moves.get(fullName)
    if (to !== undefined) {
      const rest = request.path.split("/").slice(4)
      const query = request.query.size === 0 ? "" : `?${request.query}`
      const location = `${baseOf(request)}/${["repos", to, ...rest].join("/")}${query}`
      throw refuse(request.method === "GET" ? 301 : 307, "Moved Permanently", { location })
    }
    const repository = state.repositories.get(fullName)
    if (repository === undefined) throw notFound()
    if (!repository.issuesEnabled) throw refuse(410, "Issues has been disabled in this repository.")
    return repository
  }
  const within =
    (run: (call: Call, number: string) => Reply) =>
    (request: Seen, owner = "", name = "", number = ""): Reply => {
      const token = authenticate(request)
      return run({ state, token, request, repository: repositoryFor(request, token, owner, name) }, number)
    }
  const issues = "/repos/{owner}/{repo}/issues"
  const api: Routes<Seen> = {
    "GET /user": (request) => ({ status: 200, body: { login: authenticate(request).login, type: "User" } }),
    [`GET ${issues}`]: within(listIssues),
    [`POST ${issues}`]: within(createIssue),
    [`PATCH ${issues}/{number}`]: within(updateIssue),
    [`POST ${issues}/{number}/comments`]: within(createComment)
  }
  /** The page of an issue needs no token. */
  const page: Routes<Seen> = {
    "GET /{owner}/{repo}/issues/{number}": (_, owner = "", name = "", number = "") => {
      const issue = state.repositories.get(`${owner}/${name}`.toLowerCase())?.issues[Number(number) - 1]
      if (issue === undefined) throw notFound()
      return issuePage(issue)
    }
  }

  return {
    routes: Object.keys(api),
    handle: handleBy(
      { ...api, ...page },
      (request) => request,
      (request) => {
        authenticate(request)
        throw notFound()
      }
    ),
    decorate,
    ...makeControls(state)
  }
}

export type TrackerSimulator = Simulator & Omit<ReturnType<typeof makeTracker>, keyof Contract>

/** Starts a tracker with empty repositories. */
export const startTracker = async (options: TrackerOptions & Listening): Promise<TrackerSimulator> => {
  const tracker = makeTracker(options)
  return { ...tracker, ...(await startSimulator({ ...options, ...tracker })) }
}
