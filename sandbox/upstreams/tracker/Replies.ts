/** Response bodies of the tracker (issue-tracker.md 2 and 3). */
import type { Reply } from "../Simulator.ts"
import type { Account, Comment, Issue, Repository, Token } from "./Model.ts"

const documentation_url = "https://docs.github.com/rest"

export interface FieldError {
  readonly resource: string
  readonly field: string
  readonly code: "missing" | "missing_field" | "invalid" | "already_exists" | "unprocessable" | "custom"
  readonly message?: string
  readonly value?: unknown
}

/** An error with only a message. */
export const message = (
  status: number,
  text: string,
  headers: Readonly<Record<string, string>> = {}
): Reply => ({ status, headers, body: { message: text, documentation_url, status: String(status) } })

export const notFound = message(404, "Not Found")
export const badCredentials = message(401, "Bad credentials")

/** The header names the missing permission, which distinguishes this 403 from a rate limit. */
export const noPermission = message(403, "Resource not accessible by personal access token", {
  "x-accepted-github-permissions": "issues=write"
})

export const validationFailed = (...errors: ReadonlyArray<FieldError>): Reply => ({
  status: 422,
  body: { message: "Validation Failed", errors, documentation_url, status: "422" }
})

/** The edge's HTML page; it does not say whether the request was executed. */
export const htmlError = (status: number): Reply => ({
  status,
  headers: { "content-type": "text/html" },
  body: "<html><head><title>Unicorn!</title></head><body>This page is taking too long to load.</body></html>"
})

/** ISO 8601 to the second. */
export const instant = (at: number): string => new Date(at).toISOString().replace(/\.\d{3}Z$/, "Z")

const userView = (account: Account) => ({
  login: account.login,
  id: account.id,
  type: "User",
  html_url: `https://github.com/${account.login}`
})

/** `base` is the simulator's own address, so that links lead back to it. */
export const issueView = (base: string, repository: Repository, issue: Issue) => {
  const fullName = `${repository.owner}/${repository.name}`
  const url = `${base}/repos/${fullName}/issues/${issue.number}`
  const page = `https://github.com/${fullName}/${issue.isPullRequest ? "pull" : "issues"}/${issue.number}`
  const pullUrl = `${base}/repos/${fullName}/pulls/${issue.number}`
  return {
    id: issue.id,
    node_id: `I_kw${Buffer.from(String(issue.id)).toString("base64url")}`,
    number: issue.number,
    title: issue.title,
    state: issue.state,
    state_reason: issue.stateReason,
    html_url: page,
    url,
    comments_url: `${url}/comments`,
    repository_url: `${base}/repos/${fullName}`,
    user: userView(issue.user),
    labels: [],
    assignee: null,
    assignees: [],
    milestone: null,
    locked: false,
    body: issue.body,
    created_at: instant(issue.createdAt),
    updated_at: instant(issue.updatedAt),
    closed_at: issue.closedAt === null ? null : instant(issue.closedAt),
    comments: issue.comments.length,
    ...(issue.isPullRequest ? { pull_request: { url: pullUrl, html_url: page } } : {})
  }
}

export const commentView = (base: string, repository: Repository, issue: Issue, comment: Comment) => ({
  id: comment.id,
  url: `${base}/repos/${repository.owner}/${repository.name}/issues/comments/${comment.id}`,
  html_url: `https://github.com/${repository.owner}/${repository.name}/issues/${issue.number}#issuecomment-${comment.id}`,
  user: userView(comment.user),
  body: comment.body,
  created_at: instant(comment.createdAt),
  updated_at: instant(comment.createdAt)
})

/** `permissions` are the owner's. The rights of the token itself show only when a write is tried. */
export const repositoryView = (base: string, repository: Repository, token: Token) => {
  const fullName = `${repository.owner}/${repository.name}`
  const push = token.rights === "write"
  return {
    name: repository.name,
    full_name: fullName,
    private: false,
    html_url: `https://github.com/${fullName}`,
    url: `${base}/repos/${fullName}`,
    archived: repository.archived,
    has_issues: repository.issuesEnabled,
    permissions: { admin: false, maintain: false, push, triage: push, pull: true }
  }
}

export const accountView = (account: Account) => ({
  ...userView(account),
  name: null,
  url: `https://api.github.com/users/${account.login}`
})
