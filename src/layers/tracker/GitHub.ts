import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import { type FoundIssue, type Issue, LookTooLong, type TrackerService } from "../../services/Tracker.ts"
import type { Refused, UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { observeCall, peerOf } from "../upstream/CallMetrics.ts"
import { configurationTroubles, judge, misshapen } from "./GitHubResponses.ts"
import { type Answer, type Ask, makeRequests } from "./GitHubRequests.ts"

const IssueAnswer = Schema.Struct({
  number: Schema.Int.pipe(Schema.positive()),
  html_url: Schema.String.pipe(Schema.pattern(/^https?:\/\/\S+$/)),
  user: Schema.optional(Schema.NullOr(Schema.Struct({ login: Schema.String })))
})
const ListedIssue = Schema.Struct({
  ...IssueAnswer.fields,
  body: Schema.optional(Schema.NullOr(Schema.String)),
  state: Schema.optional(Schema.String),
  created_at: Schema.String.pipe(Schema.filter((text) => !Number.isNaN(Date.parse(text)))),
  pull_request: Schema.optional(Schema.Unknown)
})
type ListedIssue = typeof ListedIssue.Type
const UserAnswer = Schema.Struct({ login: Schema.String.pipe(Schema.minLength(1)) })

const pageSize = 100
/** Pages of one look. A look that stops here is not complete, and must not count as one that found nothing. */
const mostPages = 100
const tooLong = new LookTooLong({
  reason: `the tracker lists more than ${(mostPages * pageSize).toLocaleString("en")} issues since then, too many to look through`
})

/** What is kept of an issue that carries the marker. */
interface Hit extends Issue {
  readonly open: boolean
  /** Logins are compared without case. */
  readonly author: string | undefined
}

/** Who owns the token: not asked yet, not to be had, or known. */
type Login = { readonly asked: boolean; readonly name: Option.Option<string> }

/** A configuration trouble, and the call that showed it. */
type Trouble = { readonly shownBy: "file" | "look"; readonly text: string }

export const makeGitHub = (settings: {
  readonly url: string
  readonly token: Redacted.Redacted
  readonly owner: string
  readonly repository: string
}): Effect.Effect<TrackerService> =>
  Effect.gen(function* () {
    const { send } = makeRequests(settings)
    const peer = peerOf("tracker", settings.url)
    const login = yield* Ref.make<Login>({ asked: false, name: Option.none() })
    const trouble = yield* Ref.make(Option.none<Trouble>())
    const limits = yield* Ref.make(0)
    const repository = { owner: settings.owner, repo: settings.repository }
    const issues = "/repos/{owner}/{repo}/issues"

    /** The decoded body of the one status that means success; anything else is judged. */
    const ask = <A, I>(
      request: Ask & { readonly operation: string },
      success: number,
      schema: Schema.Schema<A, I>
    ): Effect.Effect<{ readonly value: A; readonly answer: Answer }, UpstreamFailure> =>
      Effect.gen(function* () {
        const answer = yield* send(request)
        if (answer.status !== success) {
          const failure = judge(answer, yield* Clock.currentTimeMillis, yield* Ref.get(limits))
          if (failure._tag === "NotExecuted") yield* Ref.update(limits, (count) => count + 1)
          return yield* failure
        }
        yield* Ref.set(limits, 0)
        const value = yield* Schema.decodeUnknown(schema)(answer.data).pipe(Effect.mapError(misshapen))
        return { value, answer }
      }).pipe(
        observeCall({ peer, operation: request.operation, method: request.method, template: request.route })
      )

    /** A success of listing says nothing about the right to write. */
    const watched =
      (by: Trouble["shownBy"]) =>
      <A, E extends UpstreamFailure | LookTooLong>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
        effect.pipe(
          Effect.tap(() =>
            Ref.update(trouble, (last) =>
              by === "file" ? Option.none() : Option.filter(last, ({ shownBy }) => shownBy === "file")
            )
          ),
          Effect.tapError((failure: UpstreamFailure | LookTooLong) => {
            if (failure._tag !== "Refused") return Effect.void
            const { code, status } = failure
            const text = configurationTroubles[code]
            return text === undefined
              ? Effect.void
              : Ref.set(trouble, Option.some({ shownBy: by, text: `${status} ${code}: ${text}` }))
          })
        )

    const file: TrackerService["file"] = ({ body, title }) =>
      Effect.gen(function* () {
        const { value } = yield* ask(
          { operation: "file", method: "POST", route: issues, path: repository, body: { title, body } },
          201,
          IssueAnswer
        )
        const name = value.user?.login
        if (name !== undefined) yield* Ref.set(login, { asked: true, name: Option.some(name) })
        return { number: value.number, url: value.html_url }
      }).pipe(watched("file"), Effect.withSpan("Tracker.file"))

    /** None when the token may not say whose it is. */
    const ownLogin: Effect.Effect<Option.Option<string>, UpstreamFailure> = Effect.gen(function* () {
      const known = yield* Ref.get(login)
      if (known.asked) return known.name
      const name = yield* ask({ operation: "user", method: "GET", route: "/user" }, 200, UserAnswer).pipe(
        Effect.map(({ value }) => Option.some(value.login)),
        Effect.catchTag("Refused", (refusal) =>
          refusal.status === 401 ? Effect.fail(refusal) : Effect.succeed(Option.none())
        )
      )
      yield* Ref.set(login, { asked: true, name })
      return name
    })

    /** Hits by number. A page, up to 6 MB of other people's text, is let go before the next one is asked for. */
    const findHits = (
      marker: string,
      since: number
    ): Effect.Effect<ReadonlyMap<number, Hit>, UpstreamFailure | LookTooLong> =>
      Effect.gen(function* () {
        const hits = new Map<number, Hit>()
        // Not by creator: what another account filed for us, before the token changed hands, must be seen as well.
        let query: Record<string, string | number> | undefined = {
          state: "all",
          sort: "created",
          direction: "desc",
          per_page: pageSize,
          since: new Date(since).toISOString()
        }
        for (let page = 1; query !== undefined; page += 1) {
          if (page > mostPages) return yield* tooLong
          const { answer, value }: { readonly answer: Answer; readonly value: ReadonlyArray<ListedIssue> } =
            yield* ask(
              { operation: "list", method: "GET", route: issues, path: repository, query },
              200,
              Schema.Array(ListedIssue)
            )
          // A page can repeat what moved there meanwhile.
          for (const issue of value) if (carries(issue, marker, since)) hits.set(issue.number, toHit(issue))
          const oldest = value.at(-1)
          query = oldest === undefined || Date.parse(oldest.created_at) < since ? undefined : nextPage(answer)
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
        // Where the token may not say whose it is, whoever wrote the first one is taken for us.
        const us = Option.match(yield* ownLogin, {
          onNone: () => first.author,
          onSome: (name) => name.toLowerCase()
        })
        return hits.map(({ author, ...issue }): FoundIssue => ({ ...issue, own: author === us }))
      }).pipe(watched("look"), Effect.withSpan("Tracker.findByMarker"))

    const closeDuplicate: TrackerService["closeDuplicate"] = (duplicate, original) =>
      Effect.gen(function* () {
        const path = { ...repository, issue_number: duplicate.number }
        const uncommented = yield* ask(
          {
            operation: "comment",
            method: "POST",
            route: `${issues}/{issue_number}/comments`,
            path,
            body: {
              body: `Duplicate of #${original.number}: one report was filed twice after an answer was lost.`
            }
          },
          201,
          Schema.Unknown
        ).pipe(
          Effect.as(Option.none<Refused>()),
          // A locked issue, say, takes no comments; the token is another matter.
          Effect.catchTag("Refused", (refusal) =>
            refusal.status === 401 ? Effect.fail(refusal) : Effect.succeed(Option.some(refusal))
          )
        )
        // One second between writes (issue-tracker.md 3).
        yield* Effect.sleep("1 second")
        yield* ask(
          {
            operation: "close",
            method: "PATCH",
            route: `${issues}/{issue_number}`,
            path,
            body: { state: "closed", state_reason: "not_planned" }
          },
          200,
          IssueAnswer
        )
        return uncommented
      }).pipe(Effect.withSpan("Tracker.closeDuplicate"))

    return {
      enabled: true,
      file,
      findByMarker,
      closeDuplicate,
      trouble: Ref.get(trouble).pipe(Effect.map(Option.map(({ text }) => text)))
    }
  })

const carries = (issue: ListedIssue, marker: string, since: number): boolean =>
  issue.pull_request === undefined &&
  Date.parse(issue.created_at) >= since &&
  (issue.body ?? "").split(/\r?\n/).some((line) => line.trim() === marker)

const toHit = ({ html_url, number, state, user }: ListedIssue): Hit => ({
  number,
  url: html_url,
  open: state !== "closed",
  author: user?.login.toLowerCase()
})

/** The query of the next page: only that is taken from the link, so that it cannot lead elsewhere. */
const nextPage = ({ headers }: Answer): Record<string, string> | undefined => {
  const next = /<([^<>]+)>\s*;[^,]*\brel="next"/.exec(String(headers.link ?? ""))?.[1]
  return next !== undefined && URL.canParse(next) ? Object.fromEntries(new URL(next).searchParams) : undefined
}
