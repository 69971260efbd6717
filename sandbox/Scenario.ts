/** The scenario: one user's calls, step by step, against the real server over HTTP. */
import { randomUUID } from "node:crypto"
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import * as Schedule from "effect/Schedule"
import {
  call,
  demand,
  type Exchange,
  expectCode,
  expectJson,
  type StepFailed,
  textOf
} from "./HttpExchange.ts"
import { production } from "./upstreams/Iam.ts"
import { mintSlt, viewUrls, type SimulatedUpstreams } from "./SimulatedUpstreams.ts"

export interface Step {
  readonly name: string
  /** Runs the step. The runner prints the status of the returned exchange. */
  readonly run: Effect.Effect<Exchange, StepFailed>
}

interface Session {
  readonly access: string
  readonly refresh: string
}

const key = (name: string): string => `${name}-${randomUUID()}`

/** Repeats a check for 10 s: deliveries run in the background within a second or two. */
const eventually = <A>(check: Effect.Effect<A, StepFailed>): Effect.Effect<A, StepFailed> =>
  Effect.retry(check, Schedule.spaced(100).pipe(Schedule.intersect(Schedule.recurs(100))))

const sessionOf = (exchange: Exchange): Effect.Effect<Session, StepFailed> =>
  Effect.gen(function* () {
    const body = yield* expectJson(exchange, 200)
    yield* demand(
      exchange.headers.get("cache-control") === "no-store",
      "expected Cache-Control: no-store",
      exchange
    )
    return { access: yield* textOf(body, "access_token"), refresh: yield* textOf(body, "refresh_token") }
  })

/** The steps, in the order of `docs/api.md`. `base` is the server's address. */
export const makeScenario = (
  upstreams: SimulatedUpstreams,
  base: string
): Effect.Effect<ReadonlyArray<Step>> =>
  Effect.gen(function* () {
    const current = yield* Ref.make<Session>({ access: "", refresh: "" })
    const consumed = yield* Ref.make("")
    const tingKey = `si:deejay/scenario/${randomUUID()}`
    const refreshKey = key("refresh")

    const post = (path: string, body: unknown, headers: Readonly<Record<string, string>> = {}) =>
      call(`${base}${path}`, { method: "POST", body, headers })
    const bearer = (session: Session): Readonly<Record<string, string>> => ({
      authorization: `Bearer ${session.access}`,
      "x-org-id": "acme"
    })
    const signedIn = Effect.map(Ref.get(current), bearer)
    const me = Effect.flatMap(signedIn, (headers) => call(`${base}/api/v1/auth/me`, { headers }))

    const login = (headers: Readonly<Record<string, string>> = {}, slt = mintSlt(upstreams)) =>
      Effect.gen(function* () {
        const exchange = yield* post(
          "/api/v1/auth/login",
          { slt },
          { "idempotency-key": key("login"), ...headers }
        )
        yield* Ref.set(current, yield* sessionOf(exchange))
        return exchange
      })

    const sendTing = Effect.flatMap(signedIn, (headers) =>
      post("/api/v1/tings", { type: "music.trigger.fired", key: tingKey, data: { trigger: 7 } }, headers)
    )

    const refresh = (token: string, idempotencyKey: string) =>
      post("/api/v1/auth/refresh", { refresh_token: token }, { "idempotency-key": idempotencyKey })

    const report = {
      message: "Playback stops after a seek near the end of a track. @everyone please look at #1"
    }
    const reportKey = key("report")
    const eventId = randomUUID()
    const urls = viewUrls(upstreams)
    const trackerHeaders = {
      authorization: `Bearer ${upstreams.trackerToken}`,
      accept: "application/vnd.github+json",
      "user-agent": "music-sandbox"
    }
    const signed = upstreams.iam.controls.buildWebhook(
      production,
      upstreams.iam.controls.events.membershipUpdated(production, "si:lyra", "acme")
    )
    const webhook = { headers: signed.headers, body: signed.body.toString("utf8") }

    const deliver = call(`${base}/webhook/`, { method: "POST", headers: webhook.headers, body: webhook.body })

    return [
      {
        name: "discover the service",
        run: Effect.tap(call(`${base}/api/v1/iam`), (seen) => expectJson(seen, 200))
      },
      { name: "log in with a single-use token", run: login() },
      {
        name: "ask who I am",
        run: Effect.tap(me, (seen) =>
          Effect.flatMap(expectJson(seen, 200), (body) =>
            demand(body.ting_ready === true, "expected to be registered as a recipient", seen)
          )
        )
      },
      {
        name: "send a ting",
        run: Effect.tap(sendTing, (seen) =>
          Effect.flatMap(expectJson(seen, 200), (body) =>
            demand(body.replayed === false, "expected a first ting", seen)
          )
        )
      },
      {
        name: "find it in the recipient's inbox",
        run: Effect.tap(call(urls.inbox), (seen) =>
          demand(seen.text.split(tingKey).length === 2, "expected the ting exactly once", seen)
        )
      },
      {
        name: "send the same ting again: replayed",
        run: Effect.gen(function* () {
          const seen = yield* sendTing
          const body = yield* expectJson(seen, 200)
          yield* demand(body.replayed === true, "expected a replay", seen)
          const inbox = yield* call(urls.inbox)
          yield* demand(inbox.text.split(tingKey).length === 2, "expected the ting exactly once", inbox)
          return seen
        })
      },
      {
        name: "refresh the session",
        run: Effect.gen(function* () {
          const before = yield* Ref.get(current)
          const seen = yield* refresh(before.refresh, refreshKey)
          const session = yield* sessionOf(seen)
          yield* demand(session.refresh !== before.refresh, "expected a rotated refresh token", seen)
          yield* Ref.set(consumed, before.refresh)
          yield* Ref.set(current, session)
          return seen
        })
      },
      {
        name: "refresh again under the same key: the same session",
        run: Effect.gen(function* () {
          const seen = yield* refresh(yield* Ref.get(consumed), refreshKey)
          const session = yield* sessionOf(seen)
          yield* demand(session.refresh === (yield* Ref.get(current)).refresh, "expected the same pair", seen)
          return seen
        })
      },
      {
        name: "reuse the consumed token under a new key: refused",
        run: Effect.tap(
          Effect.flatMap(Ref.get(consumed), (token) => refresh(token, key("refresh"))),
          (seen) => expectCode(seen, 401, "unauthenticated")
        )
      },
      {
        name: "the whole family is revoked",
        run: Effect.tap(me, (seen) => expectCode(seen, 401, "unauthenticated"))
      },
      {
        name: "log in to a testing plane with a public id",
        run: Effect.tap(
          login({ "x-testing-environment-key": upstreams.seeded.environment.musicSecret }, "si:deejay"),
          (seen) =>
            Effect.flatMap(expectJson(seen, 200), (body) =>
              demand(
                body.testing_environment_id === upstreams.seeded.environment.environmentId,
                "expected the testing plane",
                seen
              )
            )
        )
      },
      {
        name: "its session is invalid in production",
        run: Effect.tap(me, (seen) => expectCode(seen, 401, "unauthenticated"))
      },
      { name: "log in to production again", run: login() },
      {
        name: "report a bug",
        run: Effect.gen(function* () {
          const headers = yield* signedIn
          const seen = yield* post("/api/v1/reports", report, { ...headers, "idempotency-key": reportKey })
          const body = yield* expectJson(seen, 200)
          yield* demand(body.reporter === "si:deejay", "expected my public id", seen)
          return seen
        })
      },
      {
        name: "find it filed as one issue",
        run: eventually(
          Effect.gen(function* () {
            const headers = yield* signedIn
            const seen = yield* post("/api/v1/reports", report, { ...headers, "idempotency-key": reportKey })
            const body = yield* expectJson(seen, 200)
            yield* demand(body.status === "filed" && body.replayed === true, "expected a filed report", seen)
            const issues = yield* call(urls.issues, { headers: trackerHeaders })
            yield* demand(
              issues.text.split("report-ref: ").length === 2,
              "expected exactly one issue",
              issues
            )
            return issues
          })
        )
      },
      {
        name: "send telemetry",
        run: Effect.tap(
          post("/api/v1/telemetry", {
            table: "musicclidaemon",
            events: [{ id: eventId, type: "playback.track.started", data: { track: 1 }, metadata: {} }]
          }),
          (seen) => demand(seen.status === 204, "expected 204", seen)
        )
      },
      {
        name: "find it in the table",
        run: eventually(
          Effect.tap(call(urls.rows("musicclidaemon")), (seen) =>
            demand(seen.text.includes(eventId), "expected the event's row", seen)
          )
        )
      },
      {
        name: "deliver a signed webhook",
        run: Effect.tap(deliver, (seen) =>
          Effect.flatMap(expectJson(seen, 200), (body) =>
            demand(body.received === true, "expected a receipt", seen)
          )
        )
      },
      {
        name: "deliver it again: acknowledged as a duplicate",
        run: Effect.tap(deliver, (seen) => expectJson(seen, 200))
      },
      {
        name: "deliver it with one byte changed: refused",
        run: Effect.tap(
          call(`${base}/webhook/`, { method: "POST", headers: webhook.headers, body: `${webhook.body} ` }),
          (seen) => expectCode(seen, 401, "webhook_signature_invalid")
        )
      },
      {
        name: "log out",
        run: Effect.gen(function* () {
          const { refresh: token } = yield* Ref.get(current)
          const seen = yield* post("/api/v1/auth/logout", { token }, { "idempotency-key": key("logout") })
          yield* demand(seen.status === 204 && seen.text === "", "expected 204 without a body", seen)
          return seen
        })
      },
      {
        name: "the session has ended",
        run: Effect.tap(me, (seen) => expectCode(seen, 401, "unauthenticated"))
      }
    ]
  })
