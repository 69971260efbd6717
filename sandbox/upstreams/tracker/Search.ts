/** `GET /search/issues`: an index that lags (issue-tracker.md 4), with the qualifiers that a backend would use. */
import type { Reply, Seen } from "../Simulator.ts"
import { paged, sorted } from "./Listing.ts"
import type { Issue, Repository, State, Token } from "./Model.ts"
import { issueView, validationFailed } from "./Replies.ts"

const queryLimit = 256

interface Term {
  readonly qualifier: string | undefined
  readonly text: string
}

/** Words, quoted phrases and `qualifier:value`, in lower case. */
const termsOf = (q: string): ReadonlyArray<Term> =>
  [...q.matchAll(/(?:([A-Za-z-]+):)?(?:"([^"]*)"|(\S+))/g)].map(([, qualifier, phrase, word]) => ({
    qualifier: qualifier?.toLowerCase(),
    text: (phrase ?? word ?? "").toLowerCase()
  }))

const fits = (issue: Issue, { qualifier, text }: Term): boolean => {
  switch (qualifier) {
    case "is":
    case "type":
    case "state":
      if (text === "issue") return !issue.isPullRequest
      if (text === "pr" || text === "pull-request") return issue.isPullRequest
      return text !== "open" && text !== "closed" ? true : issue.state === text
    case "author":
      return issue.user.login.toLowerCase() === text
    case "label":
      return issue.labels.some((label) => label.toLowerCase() === text)
    case "repo":
    case "in":
      return true
    case undefined:
      return `${issue.title}\n${issue.body ?? ""}`.toLowerCase().includes(text)
    default:
      return `${issue.title}\n${issue.body ?? ""}`.toLowerCase().includes(`${qualifier}:${text}`)
  }
}

const invalidQuery = (text: string) =>
  validationFailed({ resource: "Search", field: "q", code: "invalid", message: text })

export const searchIssues = (state: State, token: Token, request: Seen, base: string): Reply => {
  const q = request.query.get("q") ?? ""
  if (q.trim() === "") return validationFailed({ resource: "Search", field: "q", code: "missing" })
  if ([...q].length > queryLimit) return invalidQuery("The search is longer than 256 characters.")
  const terms = termsOf(q)
  const named = terms.filter((term) => term.qualifier === "repo").map((term) => term.text)
  const searched = named.length === 0 ? [...state.repositories.keys()] : named
  const repositories = searched
    .map((name) => state.repositories.get(name))
    .filter((found) => found !== undefined)
  if (token.rights === "none" || repositories.length < searched.length)
    return invalidQuery("The listed repositories cannot be searched.")

  const owners = new Map<Issue, Repository>()
  for (const repository of repositories)
    for (const issue of repository.issues)
      if (state.now() >= issue.createdAt + state.searchLag && terms.every((term) => fits(issue, term)))
        owners.set(issue, repository)
  const found = sorted(
    [...owners.keys()],
    request.query.get("sort") ?? "created",
    request.query.get("order") ?? "desc"
  )
  const { page, headers } = paged(request, base, found)
  const items = page.flatMap((issue) => {
    const repository = owners.get(issue)
    return repository === undefined ? [] : [{ ...issueView(base, repository, issue), score: 1 }]
  })
  return {
    status: 200,
    headers,
    body: { total_count: found.length, incomplete_results: state.searchIncomplete, items }
  }
}
