/** The background workers over a real database and simulated upstreams on real HTTP, in simulated time. */
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
import type { DeliveryLimits } from "../../../src/layers/delivery/DeliveryLimits.ts"
import { deliveryWith } from "../../../src/layers/delivery/Delivery.ts"
import { makeOperatorQueries } from "../../../src/layers/store/repositories/OperatorQueries.ts"
import { any } from "../../../src/layers/store/Query.ts"
import { openDatabase } from "../../../src/layers/store/sqlite/SqliteStore.ts"
import { TablesFromSettings } from "../../../src/layers/tables/HttpTables.ts"
import { TrackerFromSettings } from "../../../src/layers/tracker/Tracker.ts"
import { UndiciTransport } from "../../../src/layers/upstream/UndiciTransport.ts"
import { type Send, UpstreamTransport } from "../../../src/layers/upstream/UpstreamTransport.ts"
import { DeliveryHealth } from "../../../src/services/DeliveryHealth.ts"
import { Settings, type SettingsValues } from "../../../src/services/Settings.ts"
import { Store, type StoreService } from "../../../src/services/Store.ts"
import { Tracker } from "../../../src/services/Tracker.ts"
import { migratedFile } from "../../world/SqliteTemplate.ts"
import { makeSimulatedClock, nextTurns } from "./SimulatedClock.ts"
import { makeStore } from "../../../src/layers/store/repositories/Repositories.ts"
import { eventually, until } from "../../support/Waiting.ts"

const startOfTime = Date.parse("2026-11-21T10:00:00Z")

/** The workers of one process. */
export interface Process {
  readonly checks: (typeof DeliveryHealth.Service)["checks"]
  /** Shuts down in order, and moves the clock until the shutdown is over. */
  readonly stop: Effect.Effect<void>
  /** Shuts down in order without moving the clock. */
  readonly close: Effect.Effect<void>
  /** Ends at once: no later write reaches the database. */
  readonly kill: Effect.Effect<void>
}

export const makeHarness = Effect.gen(function* () {
  const clock = yield* makeSimulatedClock(startOfTime)
  const file = yield* migratedFile
  const store = yield* Effect.flatMap(openDatabase(file), makeStore)
  /** The connection of an operator's commands. */
  const database = yield* openDatabase(file, { migrate: false })
  const records = makeOperatorQueries(database)
  /** Removes a delivery whose report still exists, as an earlier version did. */
  const forget = (id: string) =>
    database.write("Test.forget", () =>
      any(database.sql`DELETE FROM deliveries WHERE id = ${id} RETURNING id`)
    )
  const lines: Array<{ readonly level: string; readonly text: string }> = []
  const logger = Logger.make(({ cause, logLevel, message }) => {
    lines.push({ level: logLevel.label, text: JSON.stringify(message) + Cause.pretty(cause) })
  })
  let calls = 0
  let hanging = 0

  const countCalls =
    (send: Send): Send =>
    (request, settle) => {
      calls += 1
      let ended = false
      const end = () => {
        if (!ended) calls -= 1
        ended = true
      }
      const cancel = send(request, (delivery) => {
        end()
        settle(delivery)
      })
      return () => {
        end()
        cancel()
      }
    }
  const transport = Layer.map(UndiciTransport, (context) =>
    Context.make(UpstreamTransport, { send: countCalls(Context.get(context, UpstreamTransport).send) })
  )

  /** Until no call to an upstream is in flight, which takes real time. */
  const settled = Effect.gen(function* () {
    yield* nextTurns
    while (calls > hanging) {
      yield* eventually(`${calls} calls end, except ${hanging}`, () => calls <= hanging)
      yield* nextTurns
    }
  })

  /** The number of calls that are never answered; `settled` does not wait for them. */
  const expectHanging = (count: number) =>
    Effect.sync(() => {
      hanging = count
    })

  /** Moves the clock from one due time to the next, and lets each step settle. */
  const pass = (seconds: number) =>
    Effect.suspend(() => clock.passUntil(clock.now() + seconds * 1000, settled))

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
      ).pipe(Layer.provide(transport))
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
        // Bounded, so that a shutdown that hangs fails its test.
        for (let second = 0; second < 10; second += 1)
          if (second < 2 || Option.isNone(yield* Fiber.poll(closing))) yield* passSecond
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

  /** Does not wait for calls, which may hang. */
  const passSecond = Effect.suspend(() =>
    clock.passUntil(clock.now() + 1_000, Effect.zipRight(Effect.promise(realPause), nextTurns))
  )

  return {
    now: clock.now,
    setTime: clock.setTime,
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

const realPause = () => new Promise<void>((wake) => setTimeout(wake, 2))
