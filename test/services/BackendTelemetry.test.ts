import { assert, describe } from "vitest"
import { it } from "../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
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
import { NotFound } from "../../src/schema/Failure.ts"
import { version } from "../../src/schema/Release.ts"
import { backendTable, clientTables, type TableName } from "../../src/schema/Telemetry.ts"
import type { WebhookEvent } from "../../src/services/Iam.ts"
import { Notifications } from "../../src/services/Notifications.ts"
import { BackendTelemetry } from "../../src/services/BackendTelemetry.ts"
import { Testing } from "../../src/services/Plane.ts"
import { Planes } from "../../src/services/Planes.ts"
import { Reports } from "../../src/services/Reports.ts"
import type { RequestInfo } from "../../src/services/RequestContext.ts"
import { Sessions } from "../../src/services/Sessions.ts"
import { Settings } from "../../src/services/Settings.ts"
import { Store } from "../../src/services/Store.ts"
import { Webhooks } from "../../src/services/Webhooks.ts"
import { testSettings } from "../support/Settings.ts"
import { SimulatedIam } from "../support/SimulatedIam.ts"
import * as SimulatedTables from "../support/SimulatedTables.ts"
import * as TestStore from "../support/TestStore.ts"
import {
  bearer,
  callerKey,
  inRequest,
  production,
  withUseCases,
  signedIn,
  start,
  type UseCaseOptions
} from "../support/UseCaseLayers.ts"

const open: ReadonlyArray<TableName> = [...clientTables, backendTable]
const testing = Testing({
  environmentId: "0199b000-0000-7000-8000-00000000000e",
  secret: Redacted.make("ask_secret"),
  webhookKeyDigest: undefined
})

const loggedOut: WebhookEvent = {
  plane: { _tag: "Production" },
  eventId: "0199a0c4-5e2b-7a10-8c3d-1f2e3d4c5b6a",
  eventType: "session.logout.v1",
  occurredAt: "2026-11-21T09:59:59Z",
  organisationUuid: Option.none(),
  aggregate: { type: "authentication_session", id: "x", version: 1 },
  data: { secret: "session" }
}

const observed = <A, E, R>(effect: Effect.Effect<A, E, R>, options: UseCaseOptions = {}) =>
  withUseCases(effect, { tables: open, ...options })

interface Written {
  readonly [name: string]: unknown
  readonly context: Readonly<Record<string, unknown>>
}

/** The events in the spool, after all buffered events were written. */
const written = Effect.gen(function* () {
  yield* (yield* BackendTelemetry).flush
  const store = yield* Store
  const now = yield* TestClock.currentTimeMillis
  const entries = yield* store.spool.lease({
    tables: new Set(open),
    count: 100_000,
    bytes: 1e9,
    now,
    leaseUntil: now,
    owner: "test"
  })
  return entries.map(({ json, ...entry }): typeof entry & { readonly record: Written } => ({
    ...entry,
    record: JSON.parse(json)
  }))
})

const record = (fields: Record<string, string | number> = { status: 200 }, info: Partial<RequestInfo> = {}) =>
  Effect.flatMap(BackendTelemetry, (events) => events.record({ kind: "request", fields })).pipe(
    inRequest(info)
  )

const offers = Effect.flatMap(TestStore.StoreSwitches, (store) => store.seen("spool.offer"))

/** Everything that is logged as a warning. */
const collecting = () => {
  const lines: Array<string> = []
  const layer = Logger.replace(
    Logger.defaultLogger,
    Logger.make(({ message }) => {
      lines.push(JSON.stringify(message))
    })
  )
  return { lines, layer }
}

describe("a backend event", () => {
  it.effect("is written to the backend's table with facts of the request", () =>
    observed(
      Effect.gen(function* () {
        yield* record(
          { method: "GET", route: "/api/v1/iam", status: 200 },
          { source: "web", requestId: "request-7" }
        )
        const [event, ...more] = yield* written
        assert.isEmpty(more)
        assert.strictEqual(event?.table, backendTable)
        assert.strictEqual(event?.eventAt, start)
        deepStrictEqual(event?.record, {
          id: event?.recordId,
          schema_version: 1,
          app: "music",
          service: "music-backend",
          source: "web",
          version,
          event: "request.completed",
          outcome: "ok",
          error_code: null,
          context: { method: "GET", route: "/api/v1/iam", status: 200, request_id: "request-7" }
        })
      })
    )
  )

  it.effect("counts the same bytes as the spool's bound", () =>
    observed(
      Effect.gen(function* () {
        yield* record({ route: "/é" })
        const [entry] = yield* written
        assert.strictEqual(entry?.bytes, Buffer.byteLength(JSON.stringify(entry?.record)))
      })
    )
  )

  it.effect("is not recorded for a caller who opted out", () =>
    observed(
      Effect.gen(function* () {
        yield* record({}, { recording: false })
        assert.isEmpty(yield* written)
      })
    )
  )

  it.effect("is not recorded without a request", () =>
    observed(
      Effect.gen(function* () {
        yield* (yield* BackendTelemetry).record({ kind: "webhook", fields: {} })
        assert.isEmpty(yield* written)
      })
    )
  )

  for (const [name, options] of [
    ["when the operator turned telemetry off", { settings: { telemetry: { enabled: false } } }],
    ["when the backend's table has no key", { tables: [...clientTables] }]
  ] as const) {
    it.effect(`is not recorded ${name}`, () =>
      observed(
        Effect.gen(function* () {
          yield* record()
          assert.isEmpty(yield* written)
          assert.isEmpty(yield* offers)
        }),
        options
      )
    )
  }
})

describe("an operation's outcome", () => {
  it.effect("is `ok` or the code of the failure", () =>
    observed(
      Effect.gen(function* () {
        const { recordOutcome } = yield* BackendTelemetry
        assert.strictEqual(
          yield* recordOutcome("ting", production)(Effect.succeed("sent")).pipe(inRequest()),
          "sent"
        )
        const failure = yield* recordOutcome(
          "ting",
          production
        )(new NotFound()).pipe(inRequest(), Effect.flip)
        assert.strictEqual(failure.code, "not_found")
        deepStrictEqual(
          (yield* written).map(({ record: entry }) => [entry.event, entry.outcome, entry.error_code]),
          [
            ["ting.completed", "ok", null],
            ["ting.completed", "error", "not_found"]
          ]
        )
      })
    )
  )

  it.effect("is not recorded in a testing plane", () =>
    observed(
      Effect.gen(function* () {
        const { recordOutcome } = yield* BackendTelemetry
        yield* recordOutcome("login", testing)(Effect.void).pipe(inRequest())
        yield* Effect.flip(recordOutcome("login", testing)(new NotFound()).pipe(inRequest()))
        assert.isEmpty(yield* written)
      })
    )
  )

  it.effect("of a webhook is not recorded in a testing plane, whatever the outcome", () =>
    observed(
      Effect.gen(function* () {
        const iam = yield* SimulatedIam
        const environment = yield* iam.environment("e2e")
        yield* (yield* Planes).resolve(Option.some(environment.secret))
        const delivery = yield* iam.delivery(loggedOut, { environment })
        const webhooks = yield* Webhooks
        const receive = Effect.flatMap(webhooks.verify(delivery), webhooks.receive).pipe(inRequest())
        yield* (yield* TestStore.StoreSwitches).breakDown("webhooks.receive")
        yield* Effect.flip(receive)
        yield* (yield* TestStore.StoreSwitches).repair("webhooks.receive")
        yield* receive
        assert.isEmpty(yield* written)
      })
    )
  )

  it.effect("of a webhook with a bad signature is not recorded: its body may claim a testing plane", () =>
    observed(
      Effect.gen(function* () {
        const { verify } = yield* Webhooks
        for (const text of ['{"test":{}}', '{"data":{"test":{}}}'])
          yield* Effect.flip(
            verify({ rawHeaders: [], body: new TextEncoder().encode(text) }).pipe(inRequest())
          )
        assert.isEmpty(yield* written)
      })
    )
  )

  it.effect("of a webhook that the database failed to store is recorded", () =>
    observed(
      Effect.gen(function* () {
        const delivery = yield* (yield* SimulatedIam).delivery(loggedOut)
        yield* (yield* TestStore.StoreSwitches).breakDown("webhooks.receive")
        const webhooks = yield* Webhooks
        yield* Effect.flip(Effect.flatMap(webhooks.verify(delivery), webhooks.receive)).pipe(inRequest())
        deepStrictEqual(
          (yield* written).map(({ record: { event, outcome } }) => [event, outcome]),
          [["webhook.completed", "error"]]
        )
      })
    )
  )

  it.effect("of a login, a ting, a report and a webhook is recorded without secrets", () =>
    observed(
      Effect.gen(function* () {
        const iam = yield* SimulatedIam
        const { caller, plane } = yield* signedIn()
        const slt = yield* iam.slt({ actor: "si:deejay" })
        const key = callerKey("secret key")
        const session = yield* (yield* Sessions).login(plane, { slt, key }).pipe(inRequest())
        const ting = { type: "music.trigger.fired", key: "si:deejay/secret ting", data: { secret: "data" } }
        yield* (yield* Notifications).send(plane, caller, ting).pipe(inRequest())
        const reports = yield* Reports
        const request = { message: "A secret message of a person." }
        const credential = Option.some(bearer(session.access_token))
        yield* reports.submit(plane, { request, key, credential }).pipe(inRequest())
        const delivery = yield* iam.delivery(loggedOut)
        const webhooks = yield* Webhooks
        const event = yield* webhooks.verify(delivery)
        yield* webhooks.receive(event).pipe(inRequest())
        yield* webhooks.receive(event).pipe(inRequest())
        const records = yield* written
        deepStrictEqual(
          records.map(({ record: entry }) => [entry.event, entry.outcome]),
          [
            ["login.completed", "ok"],
            ["ting.completed", "ok"],
            ["report.completed", "ok"],
            ["webhook.completed", "ok"],
            ["webhook.completed", "duplicate"]
          ]
        )
        const text = JSON.stringify(records)
        for (const secret of [
          Redacted.value(slt),
          Redacted.value(key),
          session.access_token,
          session.refresh_token,
          "secret",
          "si:deejay"
        ]) {
          assert.notInclude(text, secret)
        }
      })
    )
  )
})

describe("event buffering", () => {
  it.effect("writes events after a second, in batches of 200", () =>
    observed(
      Effect.gen(function* () {
        yield* Effect.replicateEffect(record(), 450)
        yield* TestClock.adjust("999 millis")
        assert.isEmpty(yield* offers)
        yield* TestClock.adjust("1 millis")
        deepStrictEqual(
          (yield* offers).map(([entries]) => (Array.isArray(entries) ? entries.length : 0)),
          [200, 200, 50]
        )
      })
    )
  )

  it.effect("keeps up to 10,000 events, and drops and counts the rest", () => {
    const { layer, lines } = collecting()
    return observed(
      Effect.gen(function* () {
        yield* Effect.replicateEffect(record(), 10_003)
        assert.strictEqual((yield* written).length, 10_000)
        deepStrictEqual(
          lines.filter((line) => line.includes("dropped")),
          ['["Own telemetry dropped",{"events":3,"reason":"buffer"}]']
        )
      })
    ).pipe(Effect.provide(layer))
  })

  it.effect("fills at most a tenth of the spool, and drops and counts the rest", () => {
    const { layer, lines } = collecting()
    return observed(
      Effect.gen(function* () {
        yield* record()
        yield* (yield* BackendTelemetry).flush
        const [[, bound] = []] = yield* offers
        deepStrictEqual(bound, { limitBytes: 100, share: backendTable, wholeBytes: 1_009 })
        assert.isEmpty(yield* written)
        deepStrictEqual(
          lines.filter((line) => line.includes("dropped")),
          ['["Own telemetry dropped",{"events":1,"reason":"spool"}]']
        )
      }),
      { settings: { telemetry: { spoolBytes: 1_009 } } }
    ).pipe(Effect.provide(layer))
  })

  it.effect("loses one batch when the database fails, counts it, and fails no request", () => {
    const { layer, lines } = collecting()
    return observed(
      Effect.gen(function* () {
        const store = yield* TestStore.StoreSwitches
        yield* Effect.replicateEffect(record(), 250)
        yield* store.breakDown("spool.offer")
        yield* TestClock.adjust("1 seconds")
        yield* store.repair("spool.offer")
        yield* TestClock.adjust("1 seconds")
        assert.strictEqual((yield* written).length, 50)
        deepStrictEqual(
          lines.filter((line) => line.includes("dropped")),
          ['["Own telemetry dropped",{"events":200,"reason":"database"}]']
        )
      })
    ).pipe(Effect.provide(layer))
  })
})

describe("the end of the process", () => {
  const build = (scope: Scope.Scope) =>
    Effect.map(
      Layer.buildWithScope(
        BackendTelemetry.Default.pipe(
          Layer.provide(SimulatedTables.layer(open)),
          Layer.provide(Layer.succeed(Settings, testSettings()))
        ),
        scope
      ),
      Context.get(BackendTelemetry)
    )

  it.effect("writes the buffered events", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const events = yield* build(scope)
      yield* events.record({ kind: "request", fields: {} }).pipe(inRequest())
      assert.isEmpty(yield* offers)
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual((yield* offers).length, 1)
    }).pipe(Effect.provide(TestStore.layer))
  )

  it.effect("finishes a write in progress", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const events = yield* build(scope)
      const store = yield* TestStore.StoreSwitches
      yield* events.record({ kind: "request", fields: {} }).pipe(inRequest())
      const held = yield* store.hold("spool.offer")
      yield* TestClock.adjust("1 seconds")
      yield* held.arrived
      const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
      yield* Effect.repeatN(Effect.yieldNow(), 20)
      yield* held.release
      yield* Fiber.join(closing)
      const [counts] = yield* (yield* Store).spool.counts
      assert.strictEqual(counts?.waiting, 1)
    }).pipe(Effect.provide(TestStore.layer))
  )
})
