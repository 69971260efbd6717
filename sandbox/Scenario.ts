/** The scenario: one user's calls, step by step, against the real server over HTTP. */
import { randomUUID } from "node:crypto"
import * as Effect from "effect/Effect"
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
import { type Caller, makeServiceClient, type ServiceRequest } from "./ServiceClient.ts"
import { mintSlt, viewUrls, type SimulatedUpstreams } from "./SimulatedUpstreams.ts"
import { production } from "./upstreams/Iam.ts"

export interface Step {
  readonly name: string
  /** Runs the step. The runner prints the status of the returned exchange. */
  readonly run: Effect.Effect<Exchange, StepFailed>
}

interface Session {
  readonly access: string
  readonly refresh: string
}

/** Repeats a check for 10 s: deliveries run in the background within a second or two. */
const eventually = <A>(check: Effect.Effect<A, StepFailed>): Effect.Effect<A, StepFailed> =>
  Effect.retry(check, Schedule.spaced(100).pipe(Schedule.intersect(Schedule.recurs(100))))

const send = ({ url, ...request }: ServiceRequest) => call(url, request)

const sessionOf = (exchange: Exchange): Effect.Effect<Session, StepFailed> =>
  Effect.gen(function* () {
    const body = yield* expectJson(exchange, 200)
    const isSecret = exchange.headers.get("cache-control") === "no-store"
    yield* demand(isSecret, "expected Cache-Control: no-store", exchange)
    return { access: yield* textOf(body, "access_token"), refresh: yield* textOf(body, "refresh_token") }
  })

/** Sends it again at each run, demands 200 and a body of which `holds` is true. */
const expecting = (
  run: Effect.Effect<Exchange, StepFailed>,
  wanted: string,
  holds: (body: Readonly<Record<string, unknown>>) => boolean
) =>
  Effect.tap(run, (seen) =>
    Effect.flatMap(expectJson(seen, 200), (body) => demand(holds(body), `expected ${wanted}`, seen))
  )

const refusing = (run: Effect.Effect<Exchange, StepFailed>, code: string) =>
  Effect.tap(run, (seen) => expectCode(seen, 401, code))

/** The steps, in the order of `docs/api.md`. `base` is the server's address. */
export const makeScenario = (
  upstreams: SimulatedUpstreams,
  base: string
): Effect.Effect<ReadonlyArray<Step>> =>
  Effect.sync(() => {
    const client = makeServiceClient(base)
    const { environmentId, musicSecret } = upstreams.seeded.environment
    const testing = makeServiceClient(base, musicSecret)
    const urls = viewUrls(upstreams)
    // The steps run one after the other.
    let session: Session = { access: "", refresh: "" }
    let consumed = ""

    const caller = (): Caller => ({ accessToken: session.access, org: "acme" })
    const me = Effect.suspend(() => send(client.me(caller())))
    const keeping = (run: Effect.Effect<Exchange, StepFailed>) =>
      Effect.tap(run, (seen) =>
        Effect.map(sessionOf(seen), (made) => {
          session = made
        })
      )
    const login = keeping(Effect.suspend(() => send(client.login(mintSlt(upstreams)))))

    const tingKey = `si:deejay/scenario/${randomUUID()}`
    const ting = { type: "music.trigger.fired", key: tingKey, data: '{"trigger":7}' }
    const sendTing = Effect.suspend(() => send(client.ting(caller(), ting)))
    const inbox = Effect.tap(call(urls.inbox), (seen) =>
      demand(seen.text.split(tingKey).length === 2, "expected the ting exactly once", seen)
    )

    const text = "Playback stops after a seek near the end of a track. @everyone please look at #1"
    let report: ServiceRequest | undefined
    const sendReport = Effect.suspend(() => {
      report ??= client.report(caller(), text)
      return send(report)
    })
    const issues = call(urls.issues, {
      headers: {
        authorization: `Bearer ${upstreams.trackerToken}`,
        accept: "application/vnd.github+json",
        "user-agent": "music-sandbox"
      }
    })

    const event = {
      id: randomUUID(),
      table: "musicclidaemon",
      type: "playback.track.started",
      data: '{"track":1}'
    }
    const { buildWebhook, events } = upstreams.iam.controls
    const { body, headers } = buildWebhook(
      production,
      events.membershipUpdated(production, "si:lyra", "acme")
    )
    const deliver = (more = "") =>
      call(`${base}/webhook/`, { method: "POST", headers, body: `${body.toString("utf8")}${more}` })

    const step = (name: string, run: Step["run"]): Step => ({ name, run })
    return [
      step(
        "discover the service",
        expecting(send(client.discover()), "a description", () => true)
      ),
      step("log in with a single-use token", login),
      step(
        "ask who I am",
        expecting(me, "to be registered as a recipient", (seen) => seen.ting_ready === true)
      ),
      step(
        "send a ting",
        expecting(sendTing, "a first ting", ({ replayed }) => replayed === false)
      ),
      step("find it in the recipient's inbox", inbox),
      step(
        "send the same ting again: replayed",
        Effect.zipLeft(
          expecting(sendTing, "a replay", ({ replayed }) => replayed === true),
          inbox
        )
      ),
      step(
        "refresh the session",
        Effect.suspend(() => {
          consumed = session.refresh
          return keeping(send(client.refresh(consumed)))
        })
      ),
      step(
        "refresh again under the same key: the same session",
        Effect.gen(function* () {
          const seen = yield* send(client.refresh(consumed))
          const again = yield* sessionOf(seen)
          const isRotated = session.refresh !== consumed
          yield* demand(
            isRotated && again.refresh === session.refresh,
            "expected the same, rotated pair",
            seen
          )
          return seen
        })
      ),
      step(
        "reuse the consumed token under a new key: refused",
        refusing(
          Effect.suspend(() => send(client.reuse(consumed))),
          "unauthenticated"
        )
      ),
      step("the whole family is revoked", refusing(me, "unauthenticated")),
      step(
        "log in to a testing plane with a public id",
        expecting(
          keeping(send(testing.login("si:deejay"))),
          "the testing plane",
          ({ testing_environment_id: plane }) => plane === environmentId
        )
      ),
      step("its session is invalid in production", refusing(me, "unauthenticated")),
      step("log in to production again", login),
      step(
        "report a bug",
        expecting(sendReport, "my public id", ({ reporter }) => reporter === "si:deejay")
      ),
      step(
        "find it filed as one issue",
        eventually(
          expecting(
            sendReport,
            "a filed report",
            ({ replayed, status }) => status === "filed" && replayed === true
          ).pipe(
            Effect.zipRight(issues),
            Effect.tap((seen) =>
              demand(seen.text.split("report-ref: ").length === 2, "expected exactly one issue", seen)
            )
          )
        )
      ),
      step(
        "send telemetry",
        Effect.tap(send(client.telemetry(null, event)), (seen) =>
          demand(seen.status === 204, "expected 204", seen)
        )
      ),
      step(
        "find it in the table",
        eventually(
          Effect.tap(call(urls.rows("musicclidaemon")), (seen) =>
            demand(seen.text.includes(event.id), "expected the event's row", seen)
          )
        )
      ),
      step(
        "deliver a signed webhook",
        expecting(deliver(), "a receipt", ({ received }) => received === true)
      ),
      step(
        "deliver it again: acknowledged as a duplicate",
        expecting(deliver(), "a receipt", () => true)
      ),
      step("deliver it with one byte more: refused", refusing(deliver(" "), "webhook_signature_invalid")),
      step(
        "log out",
        Effect.tap(
          Effect.suspend(() => send(client.logout(session.refresh))),
          (seen) => demand(seen.status === 204 && seen.text === "", "expected 204 without a body", seen)
        )
      ),
      step("the session has ended", refusing(me, "unauthenticated"))
    ]
  })
