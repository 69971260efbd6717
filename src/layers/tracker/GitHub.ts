/** The `Tracker` port over GitHub Issues (issue-tracker.md 1, 2 and 4), or off. */
import * as HttpBody from "@effect/platform/HttpBody"
import * as HttpClient from "@effect/platform/HttpClient"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { recordNow, trackerTokenExpires } from "../../services/Metrics.ts"
import { Settings } from "../../services/Settings.ts"
import { type FoundIssue, SearchTooLong, Tracker, type TrackerService } from "../../services/Tracker.ts"
import type { UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { makeUpstream, type UpstreamRequest, type UpstreamTarget } from "../upstream/Upstream.ts"
import {
  expectStatus,
  type ResponseReader,
  readJson,
  type UpstreamResponse
} from "../upstream/UpstreamResponse.ts"
import { gitHubFailure } from "./GitHubFailures.ts"

export const gitHubTarget = (url: string): UpstreamTarget => ({
  dependency: "tracker",
  url,
  timeoutSeconds: 15,
  // A page of 100 issues with bodies of 256 KiB (issue-tracker.md 2), and as much again for escapes and other fields.
  maxResponseBytes: 64 * 1024 * 1024
})

interface GitHubRequest extends Pick<UpstreamRequest, "method" | "path" | "query"> {
  readonly body?: object
}

interface GitHubRepository {
  readonly token: Redacted.Redacted
  readonly owner: string
  readonly repository: string
}

export const issuesPath = ({ owner, repository }: GitHubRepository): string =>
  `/repos/${encodeURIComponent(owner)}/${encodeURIComponent(repository)}/issues`

export const toUpstreamRequest = (
  { token }: GitHubRepository,
  { body, ...request }: GitHubRequest
): UpstreamRequest => ({
  ...request,
  headers: {
    accept: "application/vnd.github+json",
    authorization: `Bearer ${Redacted.value(token)}`,
    "x-github-api-version": "2022-11-28"
  },
  body: body && HttpBody.unsafeJson(body)
})

const Created = Schema.Struct({
  number: Schema.Int.pipe(Schema.positive()),
  html_url: Schema.String.pipe(Schema.pattern(/^https?:\/\/[!-~]{1,2000}$/))
})
const Listed = Schema.Struct({
  ...Created.fields,
  user: Schema.optional(Schema.NullOr(Schema.Struct({ login: Schema.String }))),
  body: Schema.optional(Schema.NullOr(Schema.String)),
  state: Schema.optional(Schema.String),
  created_at: Schema.String.pipe(Schema.filter((text) => !Number.isNaN(Date.parse(text)))),
  pull_request: Schema.optional(Schema.Unknown)
})

const readIssue = readJson(Created)
const readIssues = readJson(Schema.Array(Listed))
const readUser = readJson(Schema.Struct({ login: Schema.String.pipe(Schema.minLength(1)) }))
const readNothing: ResponseReader<void> = () => Either.void

const pageSize = 100
/** Pages of one search. A search that stops here is incomplete, and must not count as one that found nothing. */
const maxPages = 100
const searchTooLong = new SearchTooLong({
  reason: `the tracker lists more than ${(maxPages * pageSize).toLocaleString("en")} issues since then, too many to search`
})

/** The query of the next page. Only the query is taken from the link, so it cannot lead to another host. */
const nextPage = ({ headers }: UpstreamResponse): Readonly<Record<string, string>> | undefined => {
  const next = /<([^<>]+)>\s*;[^,]*\brel="next"/.exec(headers.link ?? "")?.[1]
  return next !== undefined && URL.canParse(next) ? Object.fromEntries(new URL(next).searchParams) : undefined
}

interface Page {
  readonly issues: ReadonlyArray<typeof Listed.Type>
  readonly next: Readonly<Record<string, string>> | undefined
}
const readPage: ResponseReader<Page> = (response) =>
  Either.map(readIssues(response), (issues) => ({ issues, next: nextPage(response) }))

const tokenExpires = trackerTokenExpires({})

/** From every answer to a token that expires: an operator is warned before it ends. */
const recordTokenExpiry = ({ headers }: Pick<UpstreamResponse, "headers">): void => {
  // `2026-12-21 07:27:00 UTC`, or with an offset.
  const text = headers["github-authentication-token-expiration"] ?? ""
  const end = Date.parse(text.replace(" UTC", "Z").replace(" ", "T").replace(" ", ""))
  if (!Number.isNaN(end)) recordNow(tokenExpires, end / 1_000)
}

const makeGitHub = (
  client: HttpClient.HttpClient,
  settings: GitHubRepository & { readonly url: string }
): TrackerService => {
  /** Of the token's account, once a call has shown it; in lower case, for logins are compared without case. */
  let ownLogin: string | undefined
  const path = issuesPath(settings)
  const noted = HttpClient.tap(client, (response) => Effect.sync(() => recordTokenExpiry(response)))
  const upstream = makeUpstream(noted, {
    ...gitHubTarget(settings.url),
    failureOf: (_, response) => gitHubFailure(response)
  })

  const call = <A>(operation: string, request: GitHubRequest, success: number, read: ResponseReader<A>) =>
    upstream({ ...toUpstreamRequest(settings, request), operation, read: expectStatus(success, read) })

  const file: TrackerService["file"] = ({ body, title }) =>
    Effect.map(
      call("file", { method: "POST", path, body: { title, body } }, 201, readIssue),
      ({ html_url, number }) => ({ number, url: html_url })
    )

  const findOwnLogin: Effect.Effect<string, UpstreamFailure> = Effect.suspend(() =>
    ownLogin === undefined
      ? Effect.map(
          call("user", { method: "GET", path: "/user" }, 200, readUser),
          ({ login }) => (ownLogin = login.toLowerCase())
        )
      : Effect.succeed(ownLogin)
  )

  /** Each page, up to 6 MB of other people's text, is released before the next one is requested. */
  const findByMarker: TrackerService["findByMarker"] = (marker, since) =>
    Effect.gen(function* () {
      const own = yield* findOwnLogin
      // By number: issues that move between pages can appear twice.
      const found = new Map<number, FoundIssue>()
      let query: Readonly<Record<string, string>> | undefined = {
        state: "all",
        sort: "created",
        direction: "desc",
        per_page: String(pageSize),
        since: new Date(since).toISOString()
      }
      for (let page = 1; query !== undefined; page += 1) {
        if (page > maxPages) return yield* searchTooLong
        const { issues, next }: Page = yield* call("list", { method: "GET", path, query }, 200, readPage)
        for (const { body, created_at, html_url, number, pull_request, state, user } of issues) {
          const isIssue = pull_request === undefined && Date.parse(created_at) >= since
          // Anybody can copy a marker from a public issue, also into an older issue of their own.
          const isOurs = isIssue && user?.login.toLowerCase() === own
          if (isOurs && (body ?? "").split(/\r?\n/).some((line) => line.trim() === marker))
            found.set(number, { number, url: html_url, open: state !== "closed" })
        }
        const oldest = issues.at(-1)
        query = oldest === undefined || Date.parse(oldest.created_at) < since ? undefined : next
      }
      return [...found.values()].sort((left, right) => left.number - right.number)
    })

  const closeDuplicate: TrackerService["closeDuplicate"] = ({ number }, original) =>
    Effect.gen(function* () {
      const issue = `${path}/${number}`
      const body = `Duplicate of #${original.number}: one report was filed twice after an answer was lost.`
      const comment = { method: "POST", path: `${issue}/comments`, body: { body } } as const
      // A locked issue, for example, refuses comments; a refused token is refused by the closing, too.
      yield* Effect.catchTag(call("comment", comment, 201, readNothing), "Refused", () => Effect.void)
      // One second between writes (issue-tracker.md 3).
      yield* Effect.sleep("1 second")
      const closed = { state: "closed", state_reason: "not_planned" }
      yield* call("close", { method: "PATCH", path: issue, body: closed }, 200, readIssue)
    })

  return { enabled: true, file, findByMarker, closeDuplicate }
}

const off = () => Effect.dieMessage("no tracker is configured")
const trackerOff: TrackerService = { enabled: false, file: off, findByMarker: off, closeDuplicate: off }

/** GitHub when a token is set (`MUSIC_GITHUB_TOKEN`). Without one nothing is filed and nothing is degraded. */
export const TrackerFromSettings: Layer.Layer<Tracker, never, Settings | HttpClient.HttpClient> =
  Layer.effect(
    Tracker,
    Effect.zipWith(Settings, HttpClient.HttpClient, ({ tracker }, client) =>
      Option.match(tracker, { onNone: () => trackerOff, onSome: (target) => makeGitHub(client, target) })
    )
  )
