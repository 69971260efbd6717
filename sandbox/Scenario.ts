/** The scenario: one user's calls, step by step, against the real server over HTTP. */
import { randomUUID } from "node:crypto"
import * as Clock from "effect/Clock"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { call, type Exchange, StepFailed } from "./HttpExchange.ts"
import { type Caller, makeServiceClient, type ServiceRequest, tokensIn } from "./ServiceClient.ts"
import { mintSlt, viewUrls, type SimulatedUpstreams } from "./SimulatedUpstreams.ts"
import { isRecord, type JsonObject, parseJson } from "./upstreams/Contract.ts"
import { production } from "./upstreams/Iam.ts"

interface Step {
  readonly name: string
  readonly request: () => ServiceRequest
  readonly status: number
  /** Keeps what later steps need of the answer's fields, and says whether it is right. An answer that is no JSON object has no fields. */
  readonly holds: (body: JsonObject, seen: Exchange) => boolean
  /** Deliveries run in the background within a second or two: it is sent again for 10 s, until it holds. */
  readonly isEventual: boolean
}

const step = (
  name: string,
  request: Step["request"],
  status: number,
  holds: Step["holds"] = () => true,
  isEventual = false
): Step => ({ name, request, status, holds, isEventual })

const isUnauthenticated: Step["holds"] = ({ error }) => isRecord(error) && error.code === "unauthenticated"

const countOf = (text: string, part: string): number => text.split(part).length - 1

const get = (url: string, headers: ServiceRequest["headers"] = {}) => ({
  ...{ method: "GET", url, headers },
  body: undefined
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
  const keep: Step["holds"] = (body, { headers }) => {
    consumed = session.refresh
    session = tokensIn(body) ?? session
    return session.refresh !== consumed && headers.get("cache-control") === "no-store"
  }
  const caller = (): Caller => ({ accessToken: session.access, org: "acme" })
  const me = () => client.me(caller())
  const login = () => client.login(mintSlt(upstreams))

  const tingKey = `si:deejay/scenario/${randomUUID()}`
  const sent = { type: "music.trigger.fired", key: tingKey, data: '{"trigger":7}' }
  const ting = () => client.ting(caller(), sent)
  const isThereOnce: Step["holds"] = (_, { text }) => countOf(text, tingKey) === 1
  const inbox = step("find it in the recipient's inbox, once", () => get(urls.inbox), 200, isThereOnce)

  const text = "Playback stops after a seek near the end of a track. @everyone please look at #1"
  let made: ServiceRequest | undefined
  const report = () => {
    made ??= client.report(caller(), text)
    return made
  }
  const issues = () =>
    get(urls.issues, {
      authorization: `Bearer ${upstreams.trackerToken}`,
      accept: "application/vnd.github+json",
      "user-agent": "music-sandbox"
    })
  const isFiled: Step["holds"] = ({ replayed, status }) => status === "filed" && replayed === true
  const isFiledOnce: Step["holds"] = (_, seen) => countOf(seen.text, "report-ref: ") === 1

  const id = randomUUID()
  const event = { id, table: "musicclidaemon", type: "playback.track.started", data: '{"track":1}' } as const
  const { buildWebhook, events } = upstreams.iam.controls
  const webhook = buildWebhook(production, events.membershipUpdated(production, "si:lyra", "acme"))
  const deliver = (more = "") => ({
    method: "POST",
    ...webhook,
    body: `${webhook.body.toString("utf8")}${more}`
  })

  return [
    step("discover the service", () => client.discover(), 200),
    step("log in with a single-use token", login, 200, keep),
    step("ask who I am: registered as a recipient", me, 200, ({ ting_ready }) => ting_ready === true),
    step("send a ting", ting, 200, ({ replayed }) => replayed === false),
    inbox,
    step("send the same ting again: replayed", ting, 200, ({ replayed }) => replayed === true),
    inbox,
    step("refresh the session: another token", () => client.refresh(session.refresh), 200, keep),
    step(
      "refresh again under the same key: the same session",
      () => client.refresh(consumed),
      200,
      ({ refresh_token }) => refresh_token === session.refresh
    ),
    step(
      "reuse the consumed token under a new key: refused",
      () => client.reuse(consumed),
      401,
      isUnauthenticated
    ),
    step("the whole family is revoked", me, 401, isUnauthenticated),
    step(
      "log in to a testing plane with a public id",
      () => testing.login("si:deejay"),
      200,
      (body, seen) => body.testing_environment_id === environmentId && keep(body, seen)
    ),
    step("its session is invalid in production", me, 401, isUnauthenticated),
    step("log in to production again", login, 200, keep),
    step("report a bug", report, 200, ({ reporter }) => reporter === "si:deejay"),
    step("send it again until it is filed: replayed", report, 200, isFiled, true),
    step("find its one issue", issues, 200, isFiledOnce, true),
    step("send telemetry", () => client.telemetry(null, event), 204),
    step(
      "find it in the table",
      () => get(urls.rows(event.table)),
      200,
      (_, seen) => seen.text.includes(id),
      true
    ),
    step("deliver a signed webhook", deliver, 200, ({ received }) => received === true),
    step("deliver it again: acknowledged as a duplicate", deliver, 200),
    step(
      "deliver it with one byte more: refused",
      () => deliver(" "),
      401,
      ({ error }) => isRecord(error) && error.code === "webhook_signature_invalid"
    ),
    step(
      "log out",
      () => client.logout(session.refresh),
      204,
      (_, seen) => seen.text === ""
    ),
    step("the session has ended", me, 401, isUnauthenticated)
  ]
}

const play = ({ holds, isEventual, request, status }: Step): Effect.Effect<Exchange, StepFailed> => {
  const once = Effect.suspend(() => {
    const made = request()
    return call(made.url, made)
  }).pipe(
    Effect.filterOrFail(
      (seen) => {
        const body = parseJson(Buffer.from(seen.text))
        return seen.status === status && holds(isRecord(body) ? body : {}, seen)
      },
      (exchange) => new StepFailed({ problem: `expected ${status} and what the step says`, exchange })
    )
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
