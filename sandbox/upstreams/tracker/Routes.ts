/** The routes of issue-tracker.md 7, behind the token. */
import type { Reply, Seen } from "../Simulator.ts"
import type { Resource } from "./Limits.ts"
import { listIssues, paged } from "./Listing.ts"
import { accountOf, type Repository, type State, type Token } from "./Model.ts"
import { accountView, commentView, issueView, message, notFound, repositoryView } from "./Replies.ts"
import { searchIssues } from "./Search.ts"
import { createComment, createIssue, updateIssue } from "./Writing.ts"

const searchPath = "/search/issues"

export const resourceOf = (request: Seen): Resource => (request.path === searchPath ? "search" : "core")

/** The simulator's own address as the caller reached it. */
const baseOf = (request: Seen): string => `http://${request.headers.get("host")?.[0] ?? "127.0.0.1"}`

/** Owner, name, and what follows `/issues`; a trailing slash matches nothing. */
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
  const move = state.moves.get(fullName)
  if (move === undefined) return undefined
  const location = `${baseOf(request)}/repos/${move.to}${rest}`
  const status = request.method === "GET" ? move.readStatus : move.writeStatus
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
  const base = baseOf(request)
  const issue = repository.issues[number - 1]
  if (issue === undefined) return notFound
  const write = { state, token, repository, base, request }
  switch (`${request.method}${comments ? " comments" : ""}`) {
    case "GET":
      return { status: 200, body: issueView(base, repository, issue) }
    case "PATCH":
      return updateIssue(write, issue)
    case "POST comments":
      return createComment(write, issue)
    case "GET comments": {
      const { page, headers } = paged(request, base, issue.comments)
      return {
        status: 200,
        headers,
        body: page.map((comment) => commentView(base, repository, issue, comment))
      }
    }
    default:
      return notFound
  }
}

/** Answers an authenticated request; what does not exist and what the token may not see look the same. */
export const answerRoute = (state: State, token: Token, request: Seen): Reply => {
  if (request.method === "GET" && request.path === "/user")
    return { status: 200, body: accountView(accountOf(state, token.login)) }
  if (request.method === "GET" && request.path === searchPath)
    return searchIssues(state, token, request, baseOf(request))
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
