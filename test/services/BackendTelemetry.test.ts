import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import { describe, expect } from "vitest"
import { NotFound } from "../../src/schema/Failure.ts"
import { version } from "../../src/schema/Release.ts"
import { backendTable, clientTables } from "../../src/schema/Telemetry.ts"
import { BackendTelemetry } from "../../src/services/BackendTelemetry.ts"
import type { WebhookEvent } from "../../src/services/Iam.ts"
import { Notifications } from "../../src/services/Notifications.ts"
import { Planes } from "../../src/services/Planes.ts"
import { Reports } from "../../src/services/Reports.ts"
import type { RequestInfo } from "../../src/services/RequestContext.ts"
import { Sessions } from "../../src/services/Sessions.ts"
import { Settings } from "../../src/services/Settings.ts"
import { Store } from "../../src/services/Store.ts"
import { Webhooks } from "../../src/services/Webhooks.ts"
import { testSettings } from "../world/Settings.ts"
import { SimulatedIam } from "../world/SimulatedIam.ts"
import * as SimulatedTables from "../world/SimulatedTables.ts"
import * as TestStore from "../world/TestStore.ts"
import {
  bearer,
  callerKey,
  inRequest,
  production,
  scenariosWith,
  signedIn,
  start,
  type UseCaseOptions
} from "../world/UseCaseLayers.ts"
import { it } from "../world/Test.ts"

const options: UseCaseOptions = { tables: [...clientTables, backendTable] }

const loggedOut: WebhookEvent = {
  plane: { _tag: "Production" },
  eventId: "0199a0c4-5e2b-7a10-8c3d-1f2e3d4c5b6a",
  eventType: "session.logout.v1",
  occurredAt: "2026-11-21T09:59:59Z",
  organisationUuid: Option.none(),
  aggregate: { type: "authentication_session", id: "x", version: 1 },
  data: { secret: "session" }
}

const recorded = scenariosWith(options)

interface Written {
  readonly [name: string]: unknown
}

/** The events in the spool, after all buffered events were written. */
const written = Effect.gen(function* () {
  yield* (yield* BackendTelemetry).flush
  const now = yield* TestClock.currentTimeMillis
  const bounds = { count: 100_000, bytes: 1e9, now, leaseUntil: now, owner: "test" }
  const entries = yield* (yield* Store).spool.lease({ tables: new Set([backendTable] as const), ...bounds })
  return entries.map(({ json, ...entry }): typeof entry & { readonly record: Written } => ({
    ...entry,
    record: JSON.parse(json)
  }))
})
const outcomes = Effect.map(written, (entries) =>
  entries.map(({ record: { error_code, event, outcome } }) => `${event} ${outcome} ${error_code}`)
)
const offers = Effect.flatMap(TestStore.StoreSwitches, (store) => store.seen("spool.offer"))

const record = (fields: Record<string, string | number> = { status: 200 }, info: Partial<RequestInfo> = {}) =>
  Effect.flatMap(BackendTelemetry, (events) => events.record({ kind: "request", fields })).pipe(
    inRequest(info)
  )

describe("a backend event", () => {
  recorded("has facts of the request, and counts its bytes", function* () {
    const fields = { method: "GET", route: "/é", status: 200 }
    yield* record(fields, { source: "web", requestId: "request-7" })
    const [event, ...more] = yield* written
    expect(more).toEqual([])
    const bytes = Buffer.byteLength(JSON.stringify(event?.record))
    expect(event).toMatchObject({ table: backendTable, eventAt: start, bytes })
    expect(event?.record).toEqual({
      id: event?.recordId,
      schema_version: 1,
      app: "music",
      service: "music-backend",
      source: "web",
      version,
      event: "request.completed",
      outcome: "ok",
      error_code: null,
      context: { ...fields, request_id: "request-7" }
    })
  })

  recorded("is not recorded for a caller who opted out, nor without a request", function* () {
    yield* record({}, { recording: false })
    yield* (yield* BackendTelemetry).record({ kind: "webhook", fields: {} })
    expect(yield* written).toEqual([])
  })

  const off: UseCaseOptions = { ...options, settings: { telemetry: { enabled: false } } }
  for (const given of [off, {}])
    scenariosWith(given)("is not recorded with telemetry off, or without a key of the table", function* () {
      yield* record()
      expect([yield* written, yield* offers]).toEqual([[], []])
    })
})

describe("an operation's outcome", () => {
  recorded("is `ok` or the code of the failure, and is not recorded in a testing plane", function* () {
    const { recordOutcome } = yield* BackendTelemetry
    const { plane } = yield* (yield* SimulatedIam).environment("e2e")
    for (const where of [production, plane]) {
      expect(yield* recordOutcome("ting", where)(Effect.succeed("sent")).pipe(inRequest())).toBe("sent")
      yield* Effect.flip(recordOutcome("ting", where)(new NotFound())).pipe(inRequest())
    }
    yield* Effect.exit(recordOutcome("ting", production)(Effect.die("a defect"))).pipe(inRequest())
    expect(yield* outcomes).toEqual(["ting.completed ok null", "ting.completed error not_found"])
  })

  recorded("of a webhook is recorded in production only, and never with a bad signature", function* () {
    const iam = yield* SimulatedIam
    const store = yield* TestStore.StoreSwitches
    const webhooks = yield* Webhooks
    const environment = yield* iam.environment("e2e")
    yield* (yield* Planes).resolve(Option.some(environment.secret))
    // The body may claim a testing plane.
    for (const text of ['{"test":{}}', '{"data":{"test":{}}}'])
      yield* Effect.flip(webhooks.verify({ rawHeaders: [], body: Buffer.from(text) })).pipe(inRequest())
    const inTesting = yield* webhooks.verify(yield* iam.delivery(loggedOut, { environment }))
    for (const one of [inTesting, yield* webhooks.verify(yield* iam.delivery(loggedOut))]) {
      yield* store.breakDown("webhooks.receive")
      yield* Effect.flip(webhooks.receive(one)).pipe(inRequest())
      yield* store.repair("webhooks.receive")
      for (const _ of [1, 2]) yield* webhooks.receive(one).pipe(inRequest())
    }
    expect(yield* outcomes).toEqual(
      ["error dependency_unavailable", "ok null", "duplicate null"].map((end) => `webhook.completed ${end}`)
    )
    expect(JSON.stringify(yield* written)).not.toContain("secret")
  })

  recorded("of a login, a ting and a report is recorded without secrets", function* () {
    const iam = yield* SimulatedIam
    const { caller, plane } = yield* signedIn()
    const slt = yield* iam.slt({ actor: "si:deejay" })
    const key = callerKey("secret key")
    const session = yield* (yield* Sessions).login(plane, { slt, key }).pipe(inRequest())
    const ting = { type: "music.trigger.fired", key: "si:deejay/secret ting", data: { secret: "data" } }
    yield* (yield* Notifications).send(plane, caller, ting).pipe(inRequest())
    const request = { message: "A secret message of a person." }
    const credential = Option.some(bearer(session.access_token))
    yield* (yield* Reports).submit(plane, { request, key, credential }).pipe(inRequest())
    expect(yield* outcomes).toEqual(["login", "ting", "report"].map((kind) => `${kind}.completed ok null`))
    const text = JSON.stringify(yield* written)
    const tokens = [Redacted.value(slt), session.access_token, session.refresh_token]
    for (const secret of [...tokens, "secret", "si:deejay"]) expect(text).not.toContain(secret)
  })
})

describe("event buffering", () => {
  recorded("writes events after a second, in batches of 200", function* () {
    yield* Effect.replicateEffect(record(), 450)
    yield* TestClock.adjust("999 millis")
    expect(yield* offers).toEqual([])
    yield* TestClock.adjust("1 millis")
    expect((yield* offers).map(([entries]) => (Array.isArray(entries) ? entries.length : 0))).toEqual([
      200, 200, 50
    ])
  })

  recorded("drops and counts what exceeds the buffer, the spool or the database", function* () {
    const lines: Array<string> = []
    const logger = Logger.make(({ message }) => void lines.push(JSON.stringify(message)))
    const store = yield* TestStore.StoreSwitches
    const { flush } = yield* BackendTelemetry
    yield* Effect.gen(function* () {
      yield* store.breakDown("spool.offer")
      yield* Effect.replicateEffect(record(), 250)
      yield* flush
      yield* store.repair("spool.offer")
      expect(yield* written).toHaveLength(50)
      yield* Effect.replicateEffect(record(), 10_003)
      expect(yield* written).toHaveLength(10_050)
    }).pipe(Effect.provide(Logger.replace(Logger.defaultLogger, logger)))
    expect(lines.filter((line) => line.includes("dropped"))).toEqual([
      '["Own telemetry dropped",{"events":200,"reason":"database"}]',
      '["Own telemetry dropped",{"events":3,"reason":"buffer"}]'
    ])
  })

  const small = scenariosWith({ ...options, settings: { telemetry: { spoolBytes: 1_009 } } })
  small("has a tenth of the spool", function* () {
    yield* record()
    expect(yield* written).toEqual([])
    expect((yield* offers)[0]?.[1]).toEqual({ limitBytes: 100, share: backendTable, wholeBytes: 1_009 })
  })
})

describe("the end of the process", () => {
  const closing = Effect.gen(function* () {
    const scope = yield* Scope.make()
    const ports = Layer.merge(SimulatedTables.layer([backendTable]), Layer.succeed(Settings, testSettings()))
    const built = yield* Layer.buildWithScope(Layer.provide(BackendTelemetry.Default, ports), scope)
    yield* Context.get(built, BackendTelemetry).record({ kind: "request", fields: {} }).pipe(inRequest())
    return Scope.close(scope, Exit.void)
  })

  it.effect("writes the buffered events, and finishes a write in progress", () =>
    Effect.gen(function* () {
      const close = yield* closing
      expect(yield* offers).toEqual([])
      const held = yield* (yield* TestStore.StoreSwitches).hold("spool.offer")
      const end = yield* Effect.fork(close)
      yield* held.arrived
      yield* held.release
      yield* Fiber.join(end)
      const later = yield* closing
      const second = yield* (yield* TestStore.StoreSwitches).hold("spool.offer")
      yield* TestClock.adjust("1 seconds")
      yield* second.arrived
      const other = yield* Effect.fork(later)
      yield* Effect.repeatN(Effect.yieldNow(), 20)
      yield* second.release
      yield* Fiber.join(other)
      const [counts] = yield* (yield* Store).spool.counts
      expect(counts?.waiting).toBe(2)
    }).pipe(Effect.provide(TestStore.layer))
  )
})
