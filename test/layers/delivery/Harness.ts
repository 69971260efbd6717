/** The background workers over a real database and simulated upstreams on real HTTP; time is the test's. */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import type { DeliveryLimits } from "../../../src/layers/delivery/DeliveryLimits.ts"
import { deliveryWith } from "../../../src/layers/delivery/Delivery.ts"
import { makeOperatorQueries } from "../../../src/layers/store/repositories/OperatorQueries.ts"
import { openDatabase, storeAt } from "../../../src/layers/store/sqlite/SqliteStore.ts"
import { TablesFromSettings } from "../../../src/layers/tables/HttpTables.ts"
import { TrackerFromSettings } from "../../../src/layers/tracker/Tracker.ts"
import { UpstreamHttpClient } from "../../../src/layers/upstream/Connection.ts"
import { DeliveryHealth } from "../../../src/services/DeliveryHealth.ts"
import { Settings, type SettingsValues } from "../../../src/services/Settings.ts"
import { Store, type StoreService } from "../../../src/services/Store.ts"
import { Tracker } from "../../../src/services/Tracker.ts"

export const startOfTime = Date.parse("2026-11-21T10:00:00Z")

/** One run of the program: its workers and what they said. */
export interface Process {
  readonly checks: (typeof DeliveryHealth.Service)["checks"]
  /** An orderly shutdown, with time for its last seconds. */
  readonly stop: Effect.Effect<void>
  /** The same, while the clock stands still. */
  readonly close: Effect.Effect<void>
  /** Gone at once: from here on nothing of it reaches the database. */
  readonly kill: Effect.Effect<void>
}

export const makeHarness = Effect.gen(function* () {
  yield* TestClock.setTime(startOfTime)
  const clock = yield* Effect.clock
  const folder = yield* Effect.acquireRelease(
    Effect.promise(() => mkdtemp(join(tmpdir(), "music-delivery-"))),
    (path) => Effect.promise(() => rm(path, { recursive: true }))
  )
  const file = join(folder, "music.sqlite")
  const store = Context.get(yield* Layer.build(storeAt(file)), Store)
  /** What an operator's commands work with, beside the processes. */
  const database = yield* openDatabase(file, { migrate: false })
  const records = makeOperatorQueries(database)
  /** As an earlier version cleaned what had failed, though its report was there. */
  const forget = (id: string) =>
    database.write("Test.forget", database.sql`DELETE FROM deliveries WHERE id = ${id} RETURNING id`)
  const lines: Array<{ readonly level: string; readonly text: string }> = []
  const logger = Logger.make(({ cause, logLevel, message }) => {
    lines.push({ level: logLevel.label, text: JSON.stringify(message) + Cause.pretty(cause) })
  })
  let calls = 0
  let hanging = 0

  const counted = <A, E>(call: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.acquireUseRelease(
      Effect.sync(() => {
        calls += 1
      }),
      () => call,
      () =>
        Effect.sync(() => {
          calls -= 1
        })
    )
  const upstreamClient = Layer.map(UpstreamHttpClient, (context) =>
    Context.make(
      HttpClient.HttpClient,
      HttpClient.transformResponse(Context.get(context, HttpClient.HttpClient), (sent) =>
        counted(Effect.flatMap(sent, readWhole))
      )
    )
  )

  /** Until no call to an upstream is under way, which real time decides; at most about two seconds. */
  const settled = Effect.promise(async () => {
    for (let quiet = 0, round = 0; quiet < 4 && round < 2000; round += 1) {
      const busy = calls > hanging
      await new Promise((wake) => (busy ? setTimeout(wake, 1) : setImmediate(wake)))
      quiet = busy ? 0 : quiet + 1
    }
  })

  /** Calls that are never answered, and that `settled` need not wait for. */
  const expectHanging = (count: number) =>
    Effect.sync(() => {
      hanging = count
    })

  /** Moves the clock from one thing that falls due to the next, and lets each be done before the next. */
  const pass = (seconds: number) =>
    Effect.gen(function* () {
      yield* settled
      const end = clock.unsafeCurrentTimeMillis() + seconds * 1000
      for (;;) {
        const now = clock.unsafeCurrentTimeMillis()
        const due = [...(yield* TestClock.sleeps())].filter((at) => at > now && at < end)
        yield* TestClock.setTime(Math.min(end, ...due))
        yield* settled
        if (due.length === 0) return
      }
    })

  /** Until something of the outside world holds, without moving the clock. */
  const until = (condition: () => boolean) =>
    Effect.promise(async () => {
      for (let round = 0; round < 1000 && !condition(); round += 1)
        await new Promise((wake) => setTimeout(wake, 1))
      if (!condition()) throw new Error("it did not happen within a second")
    })

  const start = (
    settings: SettingsValues,
    instead: Partial<typeof Tracker.Service> = {},
    bounds: Partial<DeliveryLimits> = {}
  ): Effect.Effect<Process> =>
    Effect.gen(function* () {
      let dead = false
      const mortal = <A extends object>(repository: A): A =>
        new Proxy(repository, {
          get: (target, name) => {
            const member: unknown = Reflect.get(target, name)
            return typeof member === "function"
              ? (...values: ReadonlyArray<unknown>) =>
                  dead ? Effect.die("the process is gone") : Reflect.apply(member, target, values)
              : member
          }
        })
      const own: StoreService = {
        ...store,
        reports: mortal(store.reports),
        deliveries: mortal(store.deliveries),
        destinations: mortal(store.destinations),
        spool: mortal(store.spool)
      }
      const ports = Layer.mergeAll(
        Layer.map(TrackerFromSettings, (context) =>
          Context.make(Tracker, { ...Context.get(context, Tracker), ...instead })
        ),
        TablesFromSettings,
        Layer.succeed(Store, own)
      ).pipe(Layer.provide(upstreamClient))
      const scope = yield* Scope.make()
      const context = yield* deliveryWith(bounds).pipe(
        Layer.provide(ports),
        Layer.provide(Layer.succeed(Settings, settings)),
        Layer.buildWithScope(scope),
        Effect.provide(Logger.replace(Logger.defaultLogger, logger)),
        Logger.withMinimumLogLevel(LogLevel.All)
      )
      yield* settled
      const close = Scope.close(scope, Exit.void)
      const stop = Effect.gen(function* () {
        const closing = yield* Effect.fork(close)
        yield* settledWithin(2)
        // As long as it takes, but not for ever.
        for (let more = 0; more < 8 && Option.isNone(yield* Fiber.poll(closing)); more += 1)
          yield* settledWithin(1)
        yield* Fiber.await(closing)
      })
      return {
        checks: Context.get(context, DeliveryHealth).checks,
        stop,
        close,
        kill: Effect.suspend(() => {
          dead = true
          return stop
        })
      }
    })

  /** Lets a stopping process have its last seconds. */
  const settledWithin = (seconds: number) =>
    Effect.forEach(
      Array.from({ length: seconds }),
      () => Effect.zipRight(Effect.promise(nextTurns), TestClock.adjust("1 second")),
      { discard: true }
    )

  return {
    now: () => clock.unsafeCurrentTimeMillis(),
    store,
    records,
    forget,
    lines,
    start,
    settled,
    expectHanging,
    pass,
    until
  }
})

export type Harness = Effect.Effect.Success<typeof makeHarness>

const nextTurns = async (): Promise<void> => {
  for (let turn = 0; turn < 4; turn += 1) await new Promise((wake) => setTimeout(wake, 2))
}

/** The response with its body read, so that a counted call ends with the last byte. */
const readWhole = (response: HttpClientResponse.HttpClientResponse) =>
  Effect.map(response.arrayBuffer, (bytes) =>
    HttpClientResponse.fromWeb(
      response.request,
      new Response(bytes.byteLength === 0 ? null : bytes, {
        status: response.status,
        headers: response.headers
      })
    )
  )
