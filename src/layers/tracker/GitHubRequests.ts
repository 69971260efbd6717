/** Requests to the GitHub REST API: base URL, headers, paths and limits (issue-tracker.md 1). */
import * as Redacted from "effect/Redacted"
import type { UpstreamCall } from "../upstream/UpstreamClient.ts"
import { jsonBody, type UpstreamRequest, type UpstreamTarget } from "../upstream/UpstreamRequest.ts"

/** A page of 100 issues with bodies of 256 KiB (issue-tracker.md 2), and as much again for escapes and other fields. */
const maxResponseBytes = 64 * 1024 * 1024

export const gitHubTarget = (url: string): UpstreamTarget => ({
  dependency: "tracker",
  url,
  timeoutSeconds: 15,
  maxResponseBytes,
  accept: "application/vnd.github+json"
})

export interface GitHubRequest {
  readonly method: UpstreamRequest["method"]
  /** Path below the base URL. `{owner}`, `{repo}` and `{issue_number}` are filled in. */
  readonly template: string
  readonly issueNumber?: number
  readonly query?: Readonly<Record<string, string>>
  readonly body?: Readonly<Record<string, unknown>>
}

export interface GitHubRepository {
  readonly token: Redacted.Redacted
  readonly owner: string
  readonly repository: string
}

export const toUpstreamRequest =
  ({ owner, repository, token }: GitHubRepository) =>
  ({
    body,
    issueNumber,
    method,
    query,
    template
  }: GitHubRequest): Omit<UpstreamCall<never>, "operation" | "read"> => ({
    method,
    template,
    path: template
      .replace("{owner}", encodeURIComponent(owner))
      .replace("{repo}", encodeURIComponent(repository))
      .replace("{issue_number}", String(issueNumber)),
    headers: {
      authorization: `Bearer ${Redacted.value(token)}`,
      "x-github-api-version": "2022-11-28"
    },
    ...(query === undefined ? {} : { query }),
    ...(body === undefined ? {} : { body: jsonBody(JSON.stringify(body)) })
  })
