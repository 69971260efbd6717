/**
 * Kills this process at a crash point. Transactions are observed at the database drivers, so the server needs no hooks.
 * The span's name identifies the store operation of a statement.
 */
import { createRequire } from "node:module"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberRef from "effect/FiberRef"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"
import { Store } from "../../src/services/Store.ts"
import { Tables } from "../../src/services/Tables.ts"
import { Tracker } from "../../src/services/Tracker.ts"
import { writes } from "./Points.ts"

const armed = process.env.DURABILITY_CRASH_AT ?? ""
const atShutdown = " at shutdown"
let stopping = false
process.on("SIGTERM", () => {
  stopping = true
})

const dieAt = (place: string): void => {
  if (armed !== place && !(stopping && armed === `${place}${atShutdown}`)) return
  process.kill(process.pid, "SIGKILL")
  // Blocks the thread until the signal arrives.
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000)
}

/** The kind of a delivery's update; the span names the method only. */
const updating = FiberRef.unsafeMake("")

const known: ReadonlySet<string> = new Set([
  "store.migrate",
  ...Object.keys(writes).map((write) => write.split(":")[0] ?? write)
])

/** Spans whose name differs from the method: concurrent offers are one commit. */
const named: Readonly<Record<string, string>> = {
  "Spool.commit": "spool.offer",
  "KnownPlanes.remember": "planes.remember"
}

const methodOf = (span: string): string => named[span] ?? `${span.charAt(0).toLowerCase()}${span.slice(1)}`

/** The store's operation of the current span, such as `deliveries.update:Sending`. */
const operation = (): string => {
  const fiber = Option.getOrUndefined(Fiber.getCurrentFiber())
  if (fiber === undefined) return ""
  let span = Context.getOption(fiber.currentContext, Tracer.ParentSpan)
  while (Option.isSome(span) && span.value._tag === "Span") {
    const method = methodOf(span.value.name)
    if (known.has(method)) {
      const update = method === "deliveries.update" ? fiber.getFiberRef(updating) : ""
      return update === "" ? method : `${method}:${update}`
    }
    span = span.value.parent
  }
  return ""
}

type Ended = () => void

/** Handles the crash points before a statement; the result handles those after it. */
const passing = (statement: unknown): Ended => {
  if (typeof statement !== "string" || armed === "") return () => undefined
  if (/^BEGIN\b/i.test(statement)) dieAt(`${operation()} begin`)
  if (!/^COMMIT\b/i.test(statement)) return () => undefined
  const name = operation()
  dieAt(`${name} commit`)
  return () => dieAt(`${name} committed`)
}

type Method = (this: unknown, ...parameters: Array<unknown>) => unknown

// The drivers' types do not cover patching: the two casts below are that boundary.
const patch = (target: object, name: string, wrap: (original: Method) => Method): void => {
  const original = Reflect.get(target, name) as Method
  Reflect.set(target, name, wrap(original))
}

const watchSqlite = (): void => {
  const driver = createRequire(import.meta.url)(process.env.DURABILITY_SQLITE ?? "better-sqlite3") as {
    readonly prototype: object
  }
  patch(
    driver.prototype,
    "prepare",
    (prepare) =>
      function (...parameters) {
        const [text] = parameters
        const statement = Reflect.apply(prepare, this, parameters) as object
        if (typeof text === "string" && /^(?:BEGIN|COMMIT)\b/i.test(text))
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
  patch(
    pg.Client.prototype,
    "query",
    (query) =>
      function (...parameters) {
        const ended = passing(parameters[0])
        const last = parameters.length - 1
        const callback = parameters[last]
        if (typeof callback !== "function") return Reflect.apply(query, this, parameters)
        const answered = (...answer: Array<unknown>) => {
          // A failed commit does not count.
          if (answer[0] === null || answer[0] === undefined) ended()
          return Reflect.apply(callback, undefined, answer)
        }
        return Reflect.apply(query, this, [...parameters.slice(0, last), answered])
      }
  )
}

export const watchDrivers = async (): Promise<void> =>
  process.env.MUSIC_DATABASE_URL === undefined ? watchSqlite() : await watchPostgres()

const at = (place: string) => Effect.sync(() => dieAt(place))

const around =
  (name: string) =>
  <A, E, R>(call: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    at(`${name} before`).pipe(
      Effect.zipRight(call),
      Effect.tap(() => at(`${name} after`))
    )

/** Events of an instance, by which the parent tracks the leases of each instance. */
export interface Diary {
  readonly owner: (owner: string) => void
  readonly delivered: (count: number) => void
}

export const watchedStore =
  ({ delivered, owner }: Diary) =>
  <E, R>(store: Layer.Layer<Store, E, R>): Layer.Layer<Store, E, R> =>
    Layer.map(store, (context) => {
      const service = Context.get(context, Store)
      const { deliveries, spool } = service
      return Context.add(context, Store, {
        ...service,
        deliveries: {
          ...deliveries,
          lease: (request) => {
            owner(request.owner)
            return deliveries.lease(request)
          },
          update: (id, fence, update) =>
            deliveries.update(id, fence, update).pipe(
              Effect.locally(updating, update._tag),
              Effect.tap((held) =>
                Effect.sync(() => {
                  if (held && update._tag === "Delivered") delivered(1)
                })
              )
            )
        },
        spool: {
          ...spool,
          lease: (request) => {
            owner(request.owner)
            return spool.lease(request)
          },
          settle: (result) =>
            Effect.tap(spool.settle(result), () =>
              Effect.sync(() => {
                const count = result.delivered.length + result.duplicates.length
                if (count > 0) delivered(count)
              })
            )
        }
      })
    })

export const watchedTracker = <E, R>(tracker: Layer.Layer<Tracker, E, R>): Layer.Layer<Tracker, E, R> =>
  Layer.map(tracker, (context) => {
    const service = Context.get(context, Tracker)
    return Context.add(context, Tracker, {
      ...service,
      file: (draft) => around("tracker.file")(service.file(draft)),
      findByMarker: (marker, since) => around("tracker.findByMarker")(service.findByMarker(marker, since)),
      closeDuplicate: (copy, original) =>
        around("tracker.closeDuplicate")(service.closeDuplicate(copy, original))
    })
  })

export const watchedTables = <E, R>(tables: Layer.Layer<Tables, E, R>): Layer.Layer<Tables, E, R> =>
  Layer.map(tables, (context) => {
    const service = Context.get(context, Tables)
    return Context.add(context, Tables, {
      ...service,
      write: (records) => around("tables.write")(service.write(records))
    })
  })
