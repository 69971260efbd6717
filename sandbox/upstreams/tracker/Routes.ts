/** The routes of issue-tracker.md 7, after authentication. */
import type { Reply, Seen } from "../Simulator.ts"
import { listIssues } from "./Listing.ts"
import { accountOf, type Repository, type State, type Token } from "./Model.ts"
import { accountView, message, notFound, repositoryView } from "./Replies.ts"
import { createComment, createIssue, updateIssue } from "./Writing.ts"

/** The simulator's address as the caller reached it. */
const baseOf = (request: Seen): string => `http://${request.headers.get("host")?.[0] ?? "127.0.0.1"}`

/** Owner, name, and the part after `/issues`. A trailing slash does not match. */
const issuePath = /^\/repos\/([^/]+)\/([^/]+)\/issues(?:\/([1-9][0-9]*)(\/comments)?)?$/

/** The repository itself. */
const repositoryPath = /^\/repos\/([^/]+)\/([^/]+)$/

const decoded = (segment: string): string => {
  try {
    return decodeURIComponent(segment)
  } catch {
    return ""
  }
}

const moved = (state: State, request: Seen, fullName: string, rest: string): Reply | undefined => {
  const to = state.moves.get(fullName)
  if (to === undefined) return undefined
  const location = `${baseOf(request)}/repos/${to}${rest}`
  const status = request.method === "GET" ? 301 : 307
  return {
    ...message(status, "Moved Permanently", { location }),
    body: { message: "Moved Permanently", url: location, documentation_url: "https://docs.github.com/rest" }
  }
}

const onCollection = (state: State, token: Token, request: Seen, repository: Repository): Reply => {
  const base = baseOf(request)
  if (request.method === "GET") return listIssues(state, repository, request, base)
  if (request.method === "POST") return createIssue({ state, token, repository, base, request })
  return notFound
}

const onIssue = (
  state: State,
  token: Token,
  request: Seen,
  repository: Repository,
  number: number,
  comments: boolean
): Reply => {
  const issue = repository.issues[number - 1]
  if (issue === undefined) return notFound
  const write = { state, token, repository, base: baseOf(request), request }
  if (comments) return request.method === "POST" ? createComment(write, issue) : notFound
  return request.method === "PATCH" ? updateIssue(write, issue) : notFound
}

/** Answers an authenticated request. A repository that the token may not see answers like one that does not exist. */
export const answerRoute = (state: State, token: Token, request: Seen): Reply => {
  if (request.method === "GET" && request.path === "/user")
    return { status: 200, body: accountView(accountOf(state, token.login)) }
  const own = repositoryPath.exec(request.path)
  const [, owner = "", name = "", number, comments] = own ?? issuePath.exec(request.path) ?? []
  const fullName = `${decoded(owner)}/${decoded(name)}`.toLowerCase()
  if (token.rights === "none") return notFound
  const rest = own !== null ? "" : `/issues${number === undefined ? "" : `/${number}${comments ?? ""}`}`
  const elsewhere = moved(state, request, fullName, rest + queryText(request))
  if (elsewhere !== undefined) return elsewhere
  const repository = state.repositories.get(fullName)
  if (repository === undefined) return notFound
  if (own !== null)
    return request.method === "GET"
      ? { status: 200, body: repositoryView(baseOf(request), repository, token) }
      : notFound
  if (!repository.issuesEnabled) return message(410, "Issues has been disabled in this repository.")
  return number === undefined
    ? onCollection(state, token, request, repository)
    : onIssue(state, token, request, repository, Number(number), comments !== undefined)
}

const queryText = (request: Seen): string => {
  const query = request.query.toString()
  return query === "" ? "" : `?${query}`
}
