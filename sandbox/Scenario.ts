/** The scenario: one user's calls, step by step, against the real server over HTTP. */
import { randomUUID } from "node:crypto"
import * as Clock from "effect/Clock"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { call, type Exchange, StepFailed, tokensOf } from "./HttpExchange.ts"
import { type Caller, makeServiceClient, type ServiceRequest } from "./ServiceClient.ts"
import { mintSlt, viewUrls, type SimulatedUpstreams } from "./SimulatedUpstreams.ts"
import { isRecord, type JsonObject, parseJson } from "./upstreams/Contract.ts"
import { production } from "./upstreams/Iam.ts"

interface Step {
  readonly name: string
  readonly send: Effect.Effect<Exchange, StepFailed>
  readonly status: number
  /** Of the answer's fields, which are none of an answer that is no JSON object. */
  readonly holds: (body: JsonObject, seen: Exchange) => boolean
  /** Deliveries run in the background within a second or two: it is sent again for 10 s, until it holds. */
  readonly isEventual: boolean
}

const step = (
  name: string,
  send: Step["send"],
  status: number,
  holds: Step["holds"] = () => true,
  { isEventual = false } = {}
): Step => ({ name, send, status, holds, isEventual })
const eventual = { isEventual: true }

const hasCode =
  (code: string): Step["holds"] =>
  ({ error }) =>
    isRecord(error) && error.code === code

const countOf = (text: string, part: string): number => text.split(part).length - 1

/** A request is made when its step comes. */
const send = (make: () => ServiceRequest) =>
  Effect.suspend(() => {
    const request = make()
    return call(request.url, request)
  })

/** The steps, in the order of `docs/api.md`. `base` is the server's address. */
const makeScenario = (upstreams: SimulatedUpstreams, base: string): ReadonlyArray<Step> => {
  const client = makeServiceClient(base)
  const { environmentId, musicSecret } = upstreams.seeded.environment
  const testing = makeServiceClient(base, musicSecret)
  const urls = viewUrls(upstreams)
  // The steps run one after the other.
  let session = { access: "", refresh: "" }
  let consumed = ""

  const caller = (): Caller => ({ accessToken: session.access, org: "acme" })
  const me = send(() => client.me(caller()))
  const keeping = (make: () => ServiceRequest) =>
    Effect.tap(send(make), (seen) =>
      Effect.map(tokensOf(seen), (tokens) => {
        session = tokens
      })
    )
  const isSecret: Step["holds"] = (_, { headers }) => headers.get("cache-control") === "no-store"
  const login = keeping(() => client.login(mintSlt(upstreams)))
  const refresh = () => {
    consumed = session.refresh
    return client.refresh(consumed)
  }

  const tingKey = `si:deejay/scenario/${randomUUID()}`
  const sent = { type: "music.trigger.fired", key: tingKey, data: '{"trigger":7}' }
  const ting = send(() => client.ting(caller(), sent))
  const inbox = step(
    "find it in the recipient's inbox, once",
    call(urls.inbox),
    200,
    (_, { text }) => countOf(text, tingKey) === 1
  )

  const text = "Playback stops after a seek near the end of a track. @everyone please look at #1"
  let made: ServiceRequest | undefined
  const report = send(() => {
    made ??= client.report(caller(), text)
    return made
  })
  const issues = call(urls.issues, {
    headers: {
      authorization: `Bearer ${upstreams.trackerToken}`,
      accept: "application/vnd.github+json",
      "user-agent": "music-sandbox"
    }
  })

  const id = randomUUID()
  const event = { id, table: "musicclidaemon", type: "playback.track.started", data: '{"track":1}' } as const
  const { buildWebhook, events } = upstreams.iam.controls
  const { body, headers } = buildWebhook(production, events.membershipUpdated(production, "si:lyra", "acme"))
  const deliver = (more = "") =>
    call(`${base}/webhook/`, { method: "POST", headers, body: `${body.toString("utf8")}${more}` })

  return [
    step(
      "discover the service",
      send(() => client.discover()),
      200
    ),
    step("log in with a single-use token", login, 200, isSecret),
    step("ask who I am: registered as a recipient", me, 200, ({ ting_ready }) => ting_ready === true),
    step("send a ting", ting, 200, ({ replayed }) => replayed === false),
    inbox,
    step("send the same ting again: replayed", ting, 200, ({ replayed }) => replayed === true),
    inbox,
    step("refresh the session: another token", keeping(refresh), 200, () => session.refresh !== consumed),
    step(
      "refresh again under the same key: the same session",
      send(() => client.refresh(consumed)),
      200,
      ({ refresh_token }) => refresh_token === session.refresh
    ),
    step(
      "reuse the consumed token under a new key: refused",
      send(() => client.reuse(consumed)),
      401,
      hasCode("unauthenticated")
    ),
    step("the whole family is revoked", me, 401, hasCode("unauthenticated")),
    step(
      "log in to a testing plane with a public id",
      keeping(() => testing.login("si:deejay")),
      200,
      ({ testing_environment_id: plane }) => plane === environmentId
    ),
    step("its session is invalid in production", me, 401, hasCode("unauthenticated")),
    step("log in to production again", login, 200),
    step("report a bug", report, 200, ({ reporter }) => reporter === "si:deejay"),
    step(
      "send it again until it is filed: replayed",
      report,
      200,
      ({ replayed, status }) => status === "filed" && replayed === true,
      eventual
    ),
    step("find its one issue", issues, 200, (_, seen) => countOf(seen.text, "report-ref: ") === 1, eventual),
    step(
      "send telemetry",
      send(() => client.telemetry(null, event)),
      204
    ),
    step(
      "find it in the table",
      call(urls.rows(event.table)),
      200,
      (_, seen) => seen.text.includes(id),
      eventual
    ),
    step("deliver a signed webhook", deliver(), 200, ({ received }) => received === true),
    step("deliver it again: acknowledged as a duplicate", deliver(), 200),
    step("deliver it with one byte more: refused", deliver(" "), 401, hasCode("webhook_signature_invalid")),
    step(
      "log out",
      send(() => client.logout(session.refresh)),
      204,
      (_, seen) => seen.text === ""
    ),
    step("the session has ended", me, 401, hasCode("unauthenticated"))
  ]
}

const play = ({ holds, isEventual, send: sending, status }: Step): Step["send"] => {
  const once = Effect.filterOrFail(
    sending,
    (seen) => {
      const body = parseJson(Buffer.from(seen.text))
      return seen.status === status && holds(isRecord(body) ? body : {}, seen)
    },
    (exchange) => new StepFailed({ problem: `expected ${status} and what the step says`, exchange })
  )
  return isEventual ? Effect.retry(once, { schedule: Schedule.spaced("100 millis"), times: 100 }) : once
}

/** Request and response as text for a person. */
const render = (exchange: Exchange): string =>
  [
    `> ${exchange.method} ${exchange.url}`,
    ...Object.entries(exchange.requestHeaders).map(([name, value]) => `> ${name}: ${value}`),
    ...(exchange.requestBody === undefined ? [] : [">", `> ${exchange.requestBody}`]),
    `< ${exchange.status}`,
    ...[...exchange.headers].map(([name, value]) => `< ${name}: ${value}`),
    "<",
    `< ${exchange.text}`
  ].join("\n")

/** Runs the steps in order and prints one line each. Stops at the first failure and prints its request and response. */
export const runScenario = (upstreams: SimulatedUpstreams, base: string): Effect.Effect<boolean> =>
  Effect.gen(function* () {
    const steps = makeScenario(upstreams, base)
    const width = Math.max(...steps.map(({ name }) => name.length))
    for (const [index, each] of steps.entries()) {
      const startedAt = yield* Clock.currentTimeMillis
      const result: Exchange | StepFailed = yield* Effect.merge(play(each))
      const took = (yield* Clock.currentTimeMillis) - startedAt
      const exchange = result instanceof StepFailed ? result.exchange : result
      const columns = [
        result instanceof StepFailed ? "✗" : "✓",
        String(index + 1).padStart(2),
        ` ${each.name.padEnd(width)} `,
        String(exchange?.status ?? "-").padStart(6),
        ` ${String(took).padStart(5)} ms`
      ]
      yield* Console.log(columns.join(" "))
      if (!(result instanceof StepFailed)) continue
      const seen = exchange === undefined ? "" : `\n${render(exchange)}`
      yield* Console.log(`${result.problem}${seen}`.replaceAll(/^/gm, "   "))
      yield* Console.log("\nThe scenario failed.")
      return false
    }
    yield* Console.log(`\nAll ${steps.length} steps passed.`)
    return true
  })
