/** The `Tracker` port over GitHub Issues (issue-tracker.md 1, 2 and 4), or off. */
import { HttpClient } from "@effect/platform/HttpClient"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { recordNow, trackerTokenExpires } from "../../services/Metrics.ts"
import { Settings } from "../../services/Settings.ts"
import { type FoundIssue, SearchTooLong, Tracker, type TrackerService } from "../../services/Tracker.ts"
import { NotExecuted, type Refused, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import {
  jsonBody,
  makeUpstream,
  type UpstreamCall,
  type UpstreamRequest,
  type UpstreamTarget
} from "../upstream/Upstream.ts"
import {
  expectStatus,
  type ResponseReader,
  readJson,
  type UpstreamResponse
} from "../upstream/UpstreamResponse.ts"
import { configurationTroubles, gitHubFailure } from "./GitHubFailures.ts"

/** A page of 100 issues with bodies of 256 KiB (issue-tracker.md 2), and as much again for escapes and other fields. */
const maxResponseBytes = 64 * 1024 * 1024

export const gitHubTarget = (url: string): UpstreamTarget => ({
  dependency: "tracker",
  url,
  timeoutSeconds: 15,
  maxResponseBytes,
  accept: "application/vnd.github+json"
})

interface GitHubRequest {
  readonly method: UpstreamRequest["method"]
  /** Path below the base URL. `{owner}`, `{repo}` and `{issue_number}` are filled in. */
  readonly template: string
  readonly issueNumber?: number
  readonly query?: Readonly<Record<string, string>>
  readonly body?: Readonly<Record<string, unknown>>
}

interface GitHubRepository {
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

const IssueFields = Schema.Struct({
  number: Schema.Int.pipe(Schema.positive()),
  html_url: Schema.String.pipe(Schema.pattern(/^https?:\/\/\S+$/)),
  user: Schema.optional(Schema.NullOr(Schema.Struct({ login: Schema.String })))
})
const ListedIssue = Schema.Struct({
  ...IssueFields.fields,
  body: Schema.optional(Schema.NullOr(Schema.String)),
  state: Schema.optional(Schema.String),
  created_at: Schema.String.pipe(Schema.filter((text) => !Number.isNaN(Date.parse(text)))),
  pull_request: Schema.optional(Schema.Unknown)
})
type ListedIssue = typeof ListedIssue.Type

const readIssue = readJson(IssueFields)
const readIssues = readJson(Schema.Array(ListedIssue))
const readUser = readJson(Schema.Struct({ login: Schema.String.pipe(Schema.minLength(1)) }))

const issuesTemplate = "/repos/{owner}/{repo}/issues"
const issueTemplate = `${issuesTemplate}/{issue_number}`

const pageSize = 100
/** Pages of one search. A search that stops here is incomplete, and must not count as one that found nothing. */
const maxPages = 100
const searchTooLong = new SearchTooLong({
  reason: `the tracker lists more than ${(maxPages * pageSize).toLocaleString("en")} issues since then, too many to search`
})

/** What is kept of an issue that carries the marker. */
interface Hit extends FoundIssue {
  /** Lower case: logins are compared without case. */
  readonly author: string | undefined
}

/** A refusal that only an operator can end, and the kind of call that received it. */
type Trouble = { readonly shownBy: "file" | "search"; readonly text: string }

/** The query of the next page. Only the query is taken from the link, so it cannot lead to another host. */
const nextPage = ({ headers }: UpstreamResponse): Readonly<Record<string, string>> | undefined => {
  const next = /<([^<>]+)>\s*;[^,]*\brel="next"/.exec(headers.link ?? "")?.[1]
  return next !== undefined && URL.canParse(next) ? Object.fromEntries(new URL(next).searchParams) : undefined
}

const readPage: ResponseReader<{
  readonly issues: ReadonlyArray<ListedIssue>
  readonly next: Readonly<Record<string, string>> | undefined
}> = (response) => Either.map(readIssues(response), (issues) => ({ issues, next: nextPage(response) }))

const hasMarker = (issue: ListedIssue, marker: string, since: number): boolean =>
  issue.pull_request === undefined &&
  Date.parse(issue.created_at) >= since &&
  (issue.body ?? "").split(/\r?\n/).some((line) => line.trim() === marker)

const toHit = ({ html_url, number, state, user }: ListedIssue): Hit => ({
  number,
  url: html_url,
  open: state !== "closed",
  author: user?.login.toLowerCase()
})

const tokenExpires = trackerTokenExpires({})

/** From every answer to a token that expires: an operator is warned before it ends. */
const recordTokenExpiry = ({ headers }: UpstreamResponse): void => {
  // `2026-12-21 07:27:00 UTC`, or with an offset.
  const text = headers["github-authentication-token-expiration"] ?? ""
  const end = Date.parse(text.replace(" UTC", "Z").replace(" ", "T").replace(" ", ""))
  if (!Number.isNaN(end)) recordNow(tokenExpires, end / 1_000)
}

export const makeGitHub = (
  client: HttpClient,
  settings: GitHubRepository & { readonly url: string }
): TrackerService => {
  /** Of the token's account, once a call has shown it; in lower case. */
  let ownLogin: string | undefined
  let trouble = Option.none<Trouble>()
  let limitsInARow = 0

  const prepare = toUpstreamRequest(settings)
  const upstream = makeUpstream(client, {
    ...gitHubTarget(settings.url),
    failureOf: (_, response, now) => {
      recordTokenExpiry(response)
      const failure = gitHubFailure(response, now, limitsInARow)
      if (failure._tag === "NotExecuted") limitsInARow += 1
      return failure
    }
  })

  const call = <A>(
    { operation, ...request }: GitHubRequest & { readonly operation: string },
    success: number,
    read: ResponseReader<A>
  ): Effect.Effect<A, UpstreamFailure> =>
    Effect.tap(
      upstream({
        ...prepare(request),
        operation,
        read: (response) => {
          recordTokenExpiry(response)
          return expectStatus(success, read)(response)
        }
      }),
      () =>
        Effect.sync(() => {
          limitsInARow = 0
        })
    )

  /** Remembers a configuration problem, and forgets it on success. A successful search proves no right to write. */
  const trackTrouble =
    (by: Trouble["shownBy"]) =>
    <A, E extends UpstreamFailure | SearchTooLong>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
      effect.pipe(
        Effect.tap(() =>
          Effect.sync(() => {
            trouble =
              by === "file" ? Option.none() : Option.filter(trouble, ({ shownBy }) => shownBy === "file")
          })
        ),
        Effect.tapError((failure: UpstreamFailure | SearchTooLong) =>
          Effect.sync(() => {
            const text = failure._tag === "Refused" ? configurationTroubles[failure.code] : undefined
            if (failure._tag === "Refused" && text !== undefined)
              trouble = Option.some({ shownBy: by, text: `${failure.status} ${failure.code}: ${text}` })
          })
        )
      )

  /** Turns a refusal into a value, except for a refused token. */
  const allowRefusal = <A, B>(
    effect: Effect.Effect<A, UpstreamFailure>,
    onRefusal: (refused: Refused) => B
  ): Effect.Effect<A | B, UpstreamFailure> =>
    Effect.catchTag(effect, "Refused", (refused) =>
      refused.status === 401 ? Effect.fail(refused) : Effect.succeed(onRefusal(refused))
    )

  const file: TrackerService["file"] = ({ body, title }) =>
    call(
      { operation: "file", method: "POST", template: issuesTemplate, body: { title, body } },
      201,
      readIssue
    ).pipe(
      Effect.map(({ html_url, number, user }) => {
        ownLogin = user?.login.toLowerCase() ?? ownLogin
        return { number, url: html_url }
      }),
      trackTrouble("file")
    )

  /** Undefined where GitHub does not disclose it to the token. */
  const findOwnLogin: Effect.Effect<string | undefined, UpstreamFailure> = Effect.suspend(() => {
    if (ownLogin !== undefined) return Effect.succeed(ownLogin)
    const user = call({ operation: "user", method: "GET", template: "/user" }, 200, readUser)
    return allowRefusal(
      Effect.map(user, ({ login }) => {
        ownLogin = login.toLowerCase()
        return ownLogin
      }),
      () => undefined
    )
  })

  /** Hits by number. Each page, up to 6 MB of other people's text, is released before the next one is requested. */
  const findHits = (
    marker: string,
    since: number
  ): Effect.Effect<ReadonlyMap<number, Hit>, UpstreamFailure | SearchTooLong> =>
    Effect.gen(function* () {
      const hits = new Map<number, Hit>()
      let query: Readonly<Record<string, string>> | undefined = {
        state: "all",
        sort: "created",
        direction: "desc",
        per_page: String(pageSize),
        since: new Date(since).toISOString()
      }
      for (let page = 1; query !== undefined; page += 1) {
        if (page > maxPages) return yield* searchTooLong
        const { issues, next }: Either.Either.Right<ReturnType<typeof readPage>> = yield* call(
          { operation: "list", method: "GET", template: issuesTemplate, query },
          200,
          readPage
        )
        // Issues that move between pages can appear twice.
        for (const issue of issues) if (hasMarker(issue, marker, since)) hits.set(issue.number, toHit(issue))
        const oldest = issues.at(-1)
        query = oldest === undefined || Date.parse(oldest.created_at) < since ? undefined : next
      }
      return hits
    })

  const findByMarker: TrackerService["findByMarker"] = (marker, since) =>
    Effect.gen(function* () {
      const hits = [...(yield* findHits(marker, since)).values()].sort(
        (left, right) => left.number - right.number
      )
      const [first] = hits
      if (first === undefined) return []
      // Anybody can copy a marker from a public issue, also into an older issue of their own. The account is asked for only when
      // there is something to compare; where it is not disclosed, the author of the first issue counts as the account.
      const own = (yield* findOwnLogin) ?? first.author
      return hits.filter(({ author }) => author === own)
    }).pipe(trackTrouble("search"))

  const closeDuplicate: TrackerService["closeDuplicate"] = (duplicate, original) =>
    Effect.gen(function* () {
      const issueNumber = duplicate.number
      const body = `Duplicate of #${original.number}: one report was filed twice after an answer was lost.`
      const comment = call(
        {
          operation: "comment",
          method: "POST",
          template: `${issueTemplate}/comments`,
          issueNumber,
          body: { body }
        },
        201,
        () => Either.right(Option.none<Refused>())
      )
      // A locked issue, for example, refuses comments.
      const commentRefusal = yield* allowRefusal(comment, (refused) => Option.some(refused))
      // One second between writes (issue-tracker.md 3).
      yield* Effect.sleep("1 second")
      yield* call(
        {
          operation: "close",
          method: "PATCH",
          template: issueTemplate,
          issueNumber,
          body: { state: "closed", state_reason: "not_planned" }
        },
        200,
        readIssue
      )
      return commentRefusal
    })

  return {
    enabled: true,
    file,
    findByMarker,
    closeDuplicate,
    trouble: Effect.sync(() => Option.map(trouble, ({ text }) => text))
  }
}

const notConfigured = Effect.fail(new NotExecuted({ dependency: "tracker", reason: "not configured" }))

const trackerOff: TrackerService = {
  enabled: false,
  file: () => notConfigured,
  findByMarker: () => notConfigured,
  closeDuplicate: () => notConfigured,
  trouble: Effect.succeed(Option.none())
}

/** GitHub when a token is set (`MUSIC_GITHUB_TOKEN`). Without one nothing is filed and nothing is degraded. */
export const TrackerFromSettings: Layer.Layer<Tracker, never, Settings | HttpClient> = Layer.effect(
  Tracker,
  Effect.gen(function* () {
    const { tracker } = yield* Settings
    const client = yield* HttpClient
    return Option.match(tracker, {
      onNone: () => trackerOff,
      onSome: (target) => makeGitHub(client, target)
    })
  })
)
