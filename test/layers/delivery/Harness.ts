/** The background workers over a real database and scripted ports of tracker and table service, in simulated time. */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import { deliveryWith } from "../../../src/layers/delivery/Delivery.ts"
import type { DeliveryLimits } from "../../../src/layers/delivery/DeliveryLimits.ts"
import type { TableName } from "../../../src/schema/Telemetry.ts"
import { DeliveryHealth } from "../../../src/services/DeliveryHealth.ts"
import { Settings } from "../../../src/services/Settings.ts"
import { Store, type StoreService } from "../../../src/services/Store.ts"
import { type TableRecord, Tables, type TablesService } from "../../../src/services/Tables.ts"
import {
  type IssueDraft,
  type SearchTooLong,
  Tracker,
  type TrackerService
} from "../../../src/services/Tracker.ts"
import { Refused, type UpstreamFailure } from "../../../src/services/UpstreamFailure.ts"
import { type SettingsOverrides, testSettings } from "../../support/Settings.ts"
import { freshPath, openQueries, openStore, rawQuery } from "../store/Stores.ts"
import { makeSimulatedClock, nextTurns } from "./SimulatedClock.ts"

const startOfTime = Date.parse("2026-11-21T10:00:00Z")

/** How a call ends, after so many milliseconds or never. A failure that `arrives` has its effect all the same. */
export interface Outcome<E = UpstreamFailure> {
  readonly failure?: E
  readonly arrives?: boolean
  readonly takes?: number
  readonly defect?: boolean
}

/** The outcomes of the next calls in their order, and of all later ones. */
const makeScript = <E = UpstreamFailure>() => {
  let standing: Outcome<E> = {}
  let coming: ReadonlyArray<Outcome<E>> = []
  /** Calls `effect` at once, or not at all, and ends by the script. */
  const play = <A>(effect: () => A): Effect.Effect<A, E> =>
    Effect.suspend(() => {
      const [outcome = standing, ...later] = coming
      coming = later
      const { arrives = false, defect = false, failure, takes = 0 } = outcome
      // What arrives does so at once, also when its answer comes late or never.
      const value = failure === undefined || arrives ? Option.some(effect()) : Option.none()
      const answer = failure === undefined ? Effect.orDie(value) : Effect.fail(failure)
      const end: Effect.Effect<A, E> = defect ? Effect.die("a mistake") : answer
      return takes === 0
        ? end
        : Effect.zipRight(takes === Number.POSITIVE_INFINITY ? Effect.never : Effect.sleep(takes), end)
    })
  return {
    play,
    next: (...outcomes: ReadonlyArray<Outcome<E>>) => {
      coming = outcomes
    },
    always: (outcome: Outcome<E>) => {
      coming = []
      standing = outcome
    }
  }
}

export interface SimulatedIssue {
  readonly number: number
  body: string
  readonly isOurs: boolean
  readonly at: number
  open: boolean
  comments: number
}

const makeTracker = (now: () => number) => {
  const issues: Array<SimulatedIssue> = []
  const [filing, searching] = [makeScript(), makeScript<UpstreamFailure | SearchTooLong>()]
  const sent: Array<{ readonly at: number; readonly draft: IssueDraft }> = []
  const searches: Array<{ readonly at: number; readonly since: number }> = []
  const state = {
    issues,
    filing,
    searching,
    sent,
    searches,
    /** Calls of `file` that run, at most so far, and when the last one was interrupted. */
    running: 0,
    most: 0,
    interruptedAt: 0,
    /** Milliseconds for which the list hides a new issue. */
    lag: 0,
    closing: (_: number): { readonly failure?: UpstreamFailure; readonly uncommented?: Refused } => ({}),
    add: (body: string, isOurs = true) => {
      const issue = { number: issues.length + 1, body, isOurs, at: now(), open: true, comments: 0 }
      issues.push(issue)
      return issue
    }
  }
  const answerOf = ({ number }: { readonly number: number }) => ({
    number,
    url: `https://github.com/harbor/music/issues/${number}`
  })
  const service: TrackerService = {
    enabled: true,
    trouble: Effect.succeed(Option.none()),
    file: (draft) =>
      Effect.acquireUseRelease(
        Effect.sync(() => {
          sent.push({ at: now(), draft })
          state.running += 1
          state.most = Math.max(state.most, state.running)
        }),
        () => filing.play(() => answerOf(state.add(draft.body))),
        (_, exit) =>
          Effect.sync(() => {
            state.running -= 1
            if (Exit.isInterrupted(exit)) state.interruptedAt = now()
          })
      ),
    findByMarker: (marker, since) =>
      Effect.suspend(() => {
        searches.push({ at: now(), since })
        return searching.play(() =>
          issues
            .filter(({ at, body }) => body.includes(marker) && at >= since && at + state.lag <= now())
            .map((issue) => ({ ...answerOf(issue), open: issue.open, own: issue.isOurs }))
        )
      }),
    closeDuplicate: (duplicate) =>
      Effect.suspend(() => {
        const { failure, uncommented } = state.closing(duplicate.number)
        if (failure !== undefined) return Effect.fail(failure)
        const issue = issues[duplicate.number - 1]
        if (issue !== undefined) Object.assign(issue, { open: false, comments: uncommented ? 0 : 1 })
        return Effect.succeed(Option.fromNullable(uncommented))
      })
  }
  return { state, service }
}

/** Milliseconds for which the table service recognises a record (table-service.md 4), and bytes of the largest one. */
const recognised = 300_000
const largest = 262_144

const makeTables = (now: () => number) => {
  const rows = new Map<string, { readonly table: TableName; readonly at: number }>()
  const batches: Array<{ readonly at: number; readonly records: ReadonlyArray<TableRecord> }> = []
  const retired = new Set<TableName>()
  const script = makeScript()
  let copies = 0
  const write = (records: ReadonlyArray<TableRecord>) => {
    const duplicates: Array<string> = []
    const refused: Array<{ readonly recordId: string; readonly code: string }> = []
    for (const { json, recordId, table } of records) {
      const known = rows.get(recordId)
      if (retired.has(table)) refused.push({ recordId, code: "unauthorized" })
      else if (json.length > largest) refused.push({ recordId, code: "size_exceeded" })
      else if (known !== undefined && now() - known.at < recognised) duplicates.push(recordId)
      else {
        if (known !== undefined) copies += 1
        rows.set(recordId, { table, at: now() })
      }
    }
    return { duplicates, refused }
  }
  const service: TablesService = {
    open: new Set(["musicclidaemon", "musicbackend"] as const),
    write: (records) =>
      Effect.suspend(() => {
        batches.push({ at: now(), records })
        return records.some(({ json }) => json.startsWith("{broken"))
          ? Effect.zipRight(
              script.play(() => undefined),
              new Refused({ dependency: "tables", status: 400, code: "invalid" })
            )
          : script.play(() => write(records))
      })
  }
  const stored = (table: TableName) =>
    [...rows]
      .filter(([, row]) => row.table === table)
      .map(([id]) => id)
      .toSorted()
  return { batches, retired, script, service, stored, copies: () => copies }
}

/** Functions that replace some of a process's store. */
export type Instead = {
  readonly [K in keyof StoreService]?: (real: StoreService[K]) => Partial<StoreService[K]>
}

interface Given {
  readonly settings?: SettingsOverrides
  readonly limits?: Partial<DeliveryLimits>
  readonly instead?: Instead
  /** A process has the world's store, or a connection of its own, which is not woken by others. */
  readonly store?: StoreService
}

export const makeHarness = Effect.gen(function* () {
  const clock = yield* makeSimulatedClock(startOfTime)
  const { now } = clock
  const path = yield* freshPath
  const store: StoreService = yield* openStore(path)
  const queries = yield* openQueries(path)
  const tracker = makeTracker(now)
  const tables = makeTables(now)
  const lines: Array<{ readonly level: string; readonly text: string }> = []
  const logger = Logger.make(({ cause, logLevel, message }) => {
    lines.push({ level: logLevel.label, text: JSON.stringify(message) + Cause.pretty(cause) })
  })
  const pass = (seconds: number) => Effect.suspend(() => clock.passUntil(now() + seconds * 1_000, nextTurns))

  /** The workers of one process, for the tracker, for the tables or for neither. */
  const start = (
    work: "tracker" | "tables" | "neither",
    { instead = {}, limits = {}, settings = {}, store: own = store }: Given = {}
  ) =>
    Effect.gen(function* () {
      let dead = false
      const replaced = { ...own }
      for (const [name, noun] of Object.entries(own)) {
        if (typeof noun !== "object" || name === "wakeups") continue
        const given: object = { ...noun, ...Reflect.get(instead, name)?.(noun) }
        const mortal = new Proxy(given, {
          get: (target, operation) => {
            const member: unknown = Reflect.get(target, operation)
            return typeof member === "function"
              ? (...values: ReadonlyArray<unknown>) =>
                  dead ? Effect.die("the process is gone") : Reflect.apply(member, target, values)
              : member
          }
        })
        Object.assign(replaced, { [name]: mortal })
      }
      const target = {
        token: Redacted.make("token"),
        owner: "harbor",
        repository: "music",
        url: "http://127.0.0.1:1",
        reconcileSeconds: [5, 15, 40]
      }
      const values = testSettings({ tracker: Option.some(target), ...settings })
      const scope = yield* Scope.make()
      const context = yield* deliveryWith(limits).pipe(
        Layer.provide([
          Layer.succeed(Store, replaced),
          Layer.succeed(Settings, values),
          Layer.succeed(Tracker, { ...tracker.service, enabled: work === "tracker" }),
          Layer.succeed(Tables, {
            ...tables.service,
            open: new Set(work === "tables" ? tables.service.open : [])
          })
        ]),
        Layer.buildWithScope(scope),
        Effect.provide(Logger.replace(Logger.defaultLogger, logger)),
        Logger.withMinimumLogLevel(LogLevel.All)
      )
      yield* nextTurns
      /** Shuts down in order, and moves the clock until the shutdown is over. */
      const stop = Effect.gen(function* () {
        const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
        yield* nextTurns
        // Bounded, so that a shutdown that hangs fails its test.
        for (let second = 0; second < 10 && Option.isNone(yield* Fiber.poll(closing)); second += 1)
          yield* pass(1)
        yield* Fiber.join(closing)
      })
      return {
        checks: Context.get(context, DeliveryHealth).checks,
        stop,
        /** Ends at once: no later write reaches the database. */
        kill: Effect.suspend(() => {
          dead = true
          return stop
        })
      }
    })

  return {
    now,
    setTime: clock.setTime,
    path,
    store,
    queries,
    tracker: tracker.state,
    tables,
    lines,
    levels: (level: string) => lines.filter((line) => line.level === level).length,
    start,
    pass,
    /** Removes a delivery whose report still exists, as an earlier version did. */
    forget: (id: string) => rawQuery(path, `DELETE FROM deliveries WHERE id = '${id}'`)
  }
})

export type Harness = Effect.Effect.Success<typeof makeHarness>
