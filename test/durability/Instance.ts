/**
 * The real backend as a process for tests, with other limits. It kills itself at a crash point: transactions are observed at the database
 * drivers, so the server needs no hooks.
 */
import Database from "better-sqlite3"
import { Context, Effect, Layer } from "effect"
import { makeBackend, parts } from "../../src/Backend.ts"
import { deliveryWith } from "../../src/layers/delivery/Delivery.ts"
import { expectSignal, reportStartupError, runMain } from "../../src/layers/process/Process.ts"
import { SettingsFromEnvironment } from "../../src/layers/settings/Settings.ts"
import { Tracker } from "../../src/services/Tracker.ts"
import type { InstanceOptions } from "./Instances.ts"

/** JSON, because an environment variable is a string. */
const options: InstanceOptions = JSON.parse(process.env.DURABILITY_OPTIONS ?? "{}")
const armed = options.crashAt ?? ""

const dieAt = (place: string): void => {
  if (armed !== place) return
  process.kill(process.pid, "SIGKILL")
  // Blocks the thread until the signal arrives.
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000)
}

/** The method of the store that an operation belongs to. */
const methodOf = (operation: string): string =>
  operation === "KnownPlanes.remember"
    ? "planes.remember"
    : `${operation.charAt(0).toLowerCase()}${operation.slice(1)}`

/** The operations of the writes of a transaction, which its BEGIN names. */
const begins = /^\/\* (.+?) \*\/ BEGIN\b/

/** Observes the statements of one connection, for the crash points of its transactions. */
const watchTransactions = () => {
  /** Operations of the transaction that has begun. */
  let operations: ReadonlyArray<string> = []

  /** Handles the crash points before a statement; the result handles those after it. */
  return (statement: unknown): (() => void) => {
    if (typeof statement !== "string" || armed === "") return () => undefined
    const [, names] = begins.exec(statement) ?? []
    if (names !== undefined) operations = names.split(" ").map(methodOf)
    if (statement !== "COMMIT") return () => undefined
    const committing = operations
    for (const name of committing) dieAt(`${name} commit`)
    return () => {
      for (const name of committing) dieAt(`${name} committed`)
    }
  }
}

type Method = (this: unknown, ...parameters: Array<unknown>) => unknown

// The drivers' types do not cover patching: this cast is that boundary.
const patch = (target: object, name: string, wrap: (original: Method) => Method): void => {
  const original = Reflect.get(target, name) as Method
  Reflect.set(target, name, wrap(original))
}

const watchSqlite = (): void => {
  // One connection writes.
  const passing = watchTransactions()
  patch(
    Database.prototype,
    "prepare",
    (prepare) =>
      function (...parameters) {
        const [text] = parameters
        const statement = Reflect.apply(prepare, this, parameters) as object
        if (typeof text === "string" && (begins.test(text) || text === "COMMIT"))
          patch(
            statement,
            "run",
            (run) =>
              function (...given) {
                const ended = passing(text)
                const result = Reflect.apply(run, this, given)
                ended()
                return result
              }
          )
        return statement
      }
  )
}

const watchPostgres = async (): Promise<void> => {
  // Loaded on demand, as the server does: it takes a while.
  const { default: pg } = await import("pg")
  const connections = new Map<unknown, ReturnType<typeof watchTransactions>>()
  patch(
    pg.Client.prototype,
    "query",
    (query) =>
      function (...parameters) {
        const passing = connections.get(this) ?? watchTransactions()
        connections.set(this, passing)
        const ended = passing(parameters[0])
        const callback = parameters.at(-1)
        if (typeof callback !== "function") return Reflect.apply(query, this, parameters)
        const answered = (...answer: Array<unknown>) => {
          // A failed commit does not count.
          if (answer[0] === null || answer[0] === undefined) ended()
          return Reflect.apply(callback, undefined, answer)
        }
        return Reflect.apply(query, this, [...parameters.slice(0, -1), answered])
      }
  )
}

const watchDrivers = async (): Promise<void> =>
  process.env.MUSIC_DATABASE_URL === undefined ? watchSqlite() : await watchPostgres()

const around = <A, E, R>(name: string, call: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.sync(() => dieAt(`${name} before`)).pipe(
    Effect.zipRight(call),
    Effect.tap(() => Effect.sync(() => dieAt(`${name} after`)))
  )

const watchedTracker = <E, R>(tracker: Layer.Layer<Tracker, E, R>): Layer.Layer<Tracker, E, R> =>
  Layer.map(tracker, (context) => {
    const service = Context.get(context, Tracker)
    return Context.add(context, Tracker, {
      ...service,
      findByMarker: (...given) => around("tracker.findByMarker", service.findByMarker(...given)),
      closeDuplicate: (...given) => around("tracker.closeDuplicate", service.closeDuplicate(...given))
    })
  })

const watched = {
  ...parts,
  tracker: watchedTracker(parts.tracker),
  delivery: deliveryWith(options.limits ?? {})
}

expectSignal.pipe(
  Effect.zipRight(Effect.promise(watchDrivers)),
  Effect.zipRight(Layer.launch(makeBackend(watched))),
  Effect.provide(SettingsFromEnvironment),
  reportStartupError,
  runMain
)
