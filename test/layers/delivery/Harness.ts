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
import * as Scope from "effect/Scope"
import { deliveryWith } from "../../../src/layers/delivery/Delivery.ts"
import type { DeliveryLimits } from "../../../src/layers/delivery/Worker.ts"
import type { TableName } from "../../../src/schema/Telemetry.ts"
import { DeliveryHealth } from "../../../src/services/DeliveryHealth.ts"
import { Settings } from "../../../src/services/Settings.ts"
import { Store } from "../../../src/services/Store.ts"
import { type TableRecord, Tables, type TablesService } from "../../../src/services/Tables.ts"
import { type SearchTooLong, Tracker, type TrackerService } from "../../../src/services/Tracker.ts"
import { Refused, type UpstreamFailure } from "../../../src/services/UpstreamFailure.ts"
import { type Around, aroundStore } from "../../world/Around.ts"
import { makeManualClock } from "../../world/Time.ts"
import { type SettingsOverrides, testSettings, testTracker } from "../../world/Settings.ts"
import { sampleReport } from "../store/Samples.ts"
import { freshPath, openStore } from "../store/Stores.ts"

export const hour = 3_600_000
export const day = 24 * hour

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
      if (takes === 0) return end
      return Effect.zipRight(takes === Number.POSITIVE_INFINITY ? Effect.never : Effect.sleep(takes), end)
    })
  const next = (...outcomes: ReadonlyArray<Outcome<E>>) => {
    coming = outcomes
  }
  const always = (outcome: Outcome<E>) => {
    coming = []
    standing = outcome
  }
  return { play, next, always }
}

interface SimulatedIssue {
  readonly number: number
  readonly body: string
  readonly at: number
  open: boolean
  comments: number
}

const makeTracker = (now: () => number) => {
  const state = {
    issues: [] as SimulatedIssue[],
    filing: makeScript(),
    searching: makeScript<UpstreamFailure | SearchTooLong>(),
    sent: [] as { readonly at: number; readonly body: string }[],
    searches: [] as { readonly at: number; readonly since: number }[],
    /** Calls of `file` that run, at most so far, and when the last one was interrupted. */
    running: 0,
    most: 0,
    interruptedAt: 0,
    /** Milliseconds for which the list hides a new issue. */
    lag: 0,
    closing: (_: number): { readonly failure?: UpstreamFailure; readonly uncommented?: Refused } => ({}),
    add: (body: string) => {
      const issue = { number: state.issues.length + 1, body, at: now(), open: true, comments: 0 }
      state.issues.push(issue)
      return issue
    }
  }
  const answerOf = ({ number }: { readonly number: number }) => ({
    number,
    url: `https://github.com/harbor/music/issues/${number}`
  })
  const service: TrackerService = {
    enabled: true,
    file: ({ body }) =>
      Effect.acquireUseRelease(
        Effect.sync(() => {
          state.sent.push({ at: now(), body })
          state.running += 1
          state.most = Math.max(state.most, state.running)
        }),
        () => state.filing.play(() => answerOf(state.add(body))),
        (_, exit) =>
          Effect.sync(() => {
            state.running -= 1
            if (Exit.isInterrupted(exit)) state.interruptedAt = now()
          })
      ),
    findByMarker: (marker, since) =>
      Effect.suspend(() => {
        state.searches.push({ at: now(), since })
        return state.searching.play(() =>
          state.issues
            .filter(({ at, body }) => body.includes(marker) && at >= since && at + state.lag <= now())
            .map((issue) => ({ ...answerOf(issue), open: issue.open }))
        )
      }),
    closeDuplicate: ({ number }) =>
      Effect.suspend(() => {
        const { failure, uncommented } = state.closing(number)
        if (failure !== undefined) return Effect.fail(failure)
        const issue = state.issues[number - 1]
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
  const invalid = new Refused({ dependency: "tables", status: 400, code: "invalid" })
  const service: TablesService = {
    open: new Set(["musicclidaemon", "musicfrontendevents"] as const),
    write: (records) =>
      Effect.suspend(() => {
        batches.push({ at: now(), records })
        const isInvalid = records.some(({ json }) => json.startsWith("{broken"))
        return isInvalid
          ? Effect.zipRight(
              script.play(() => undefined),
              invalid
            )
          : script.play(() => write(records))
      })
  }
  const stored = (table: TableName = "musicclidaemon") =>
    [...rows].flatMap(([id, row]) => (row.table === table ? [id] : [])).toSorted()
  return { batches, retired, script, service, stored, copies: () => copies }
}

/** In these turns of the event loop, every runnable fiber reaches its next wait. */
const nextTurns = Effect.promise(async () => {
  for (let turn = 0; turn < 40; turn += 1) await new Promise((wake) => setImmediate(wake))
})

/** A clock that the test moves. `pass` goes from one due time to the next, and settles after each. */
export const makeTime = (startAt: number) => {
  const { clock, dueTimes, now, setTime } = makeManualClock(startAt)
  const pass = (seconds: number) =>
    Effect.gen(function* () {
      const end = now() + seconds * 1_000
      yield* nextTurns
      for (;;) {
        const due = dueTimes().filter((at) => at > now() && at < end)
        setTime(Math.min(end, ...due))
        yield* nextTurns
        if (due.length === 0) return
      }
    })
  return { clock, now, setTime, pass }
}

interface Given {
  readonly settings?: SettingsOverrides
  readonly limits?: Partial<DeliveryLimits>
  readonly around?: Around
  /** A connection of its own, which is not woken by others; default: the world's store. */
  readonly alone?: boolean
}

export const makeHarness = Effect.gen(function* () {
  const { clock, now, pass, setTime } = makeTime(Date.parse("2026-11-21T10:00:00Z"))
  yield* Effect.withClockScoped(clock)
  const path = yield* freshPath
  const store = yield* openStore(path)
  const { deliveries, reports } = store
  const tracker = makeTracker(now)
  const tables = makeTables(now)
  const lines: Array<{ readonly level: string; readonly text: string }> = []
  const logger = Logger.make(({ cause, logLevel, message }) => {
    lines.push({ level: logLevel.label, text: JSON.stringify(message) + Cause.pretty(cause) })
  })

  /** The workers of one process, for the tracker, for the tables or for neither. */
  const start = (
    work: "tracker" | "tables" | "neither",
    { alone = false, around = (call) => call, limits = {}, settings = {} }: Given = {}
  ) =>
    Effect.gen(function* () {
      let dead = false
      const own = aroundStore(alone ? yield* openStore(path) : store, (...call) =>
        Effect.suspend(() => (dead ? Effect.die("the process is gone") : around(...call)))
      )
      const open = new Set(work === "tables" ? tables.service.open : [])
      const scope = yield* Scope.make()
      const context = yield* deliveryWith(limits).pipe(
        Layer.provide([
          Layer.succeed(Store, own),
          Layer.succeed(Settings, testSettings({ tracker: Option.some(testTracker), ...settings })),
          Layer.succeed(Tracker, { ...tracker.service, enabled: work === "tracker" }),
          Layer.succeed(Tables, { ...tables.service, open })
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
      /** Ends at once: no later write reaches the database. */
      const kill = Effect.suspend(() => {
        dead = true
        return stop
      })
      return {
        health: Effect.map(
          Context.get(context, DeliveryHealth).checks,
          (all) => all[work === "tables" ? work : "tracker"]
        ),
        stop,
        kill
      }
    })

  let count = 0
  const admit = (change: Parameters<typeof sampleReport>[0] = {}) =>
    Effect.suspend(() => {
      const id = `rep_${count++}`
      const report = sampleReport({ id, keyDigest: id, createdAt: now(), ...change })
      return Effect.as(reports.admit(report, true), report)
    })
  const find = (id: string) => Effect.map(deliveries.find(id), Option.getOrThrow)
  return {
    now,
    setTime,
    pass,
    store,
    tracker: tracker.state,
    tables,
    lines,
    start,
    levels: (level: string) => lines.filter((line) => line.level === level).length,
    admit,
    admitSome: (size: number) => Effect.replicateEffect(admit(), size),
    find,
    delivery: ({ id }: { readonly id: string }) => find(`report:${id}`),
    /** The number of its issue. */
    filed: ({ id }: { readonly id: string }) =>
      Effect.map(
        reports.find(id),
        (found) => Option.getOrThrow(found).issue.pipe(Option.getOrUndefined)?.number
      ),
    issues: () => tracker.state.issues.map(({ comments, open }) => `${open ? "open" : "closed"} ${comments}`),
    /** Deliveries by state. */
    states: Effect.map(deliveries.counts, (counts) =>
      Object.fromEntries(counts.map((row) => [row.state, row.count]))
    )
  }
})
