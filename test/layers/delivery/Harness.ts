/** The background workers over a real database and the clients of tracker and table service, whose calls end by a script, in simulated time. */
import { HttpClient } from "@effect/platform/HttpClient"
import {
  Array as Arr,
  Cause,
  Context,
  Effect,
  Exit,
  Fiber,
  FiberRef,
  Layer,
  Logger,
  LogLevel,
  Option,
  Scope
} from "effect"
import { parts } from "../../../src/Backend.ts"
import { deliveryWith } from "../../../src/layers/delivery/Delivery.ts"
import type { DeliveryLimits } from "../../../src/layers/delivery/Worker.ts"
import type { TableName } from "../../../src/schema/Telemetry.ts"
import { DeliveryHealth } from "../../../src/services/usecases/Readiness.ts"
import { Settings } from "../../../src/services/Settings.ts"
import { Store } from "../../../src/services/Store.ts"
import { type TableRecord, Tables, type TablesService } from "../../../src/services/Tables.ts"
import { type SearchTooLong, Tracker, type TrackerService } from "../../../src/services/Tracker.ts"
import type { UpstreamFailure } from "../../../src/services/UpstreamFailure.ts"
import { type Around, aroundStore } from "../../world/Around.ts"
import { makeFaults } from "../../world/Faults.ts"
import { makeSimulatedTime, scheduler } from "../../world/Time.ts"
import { type SettingsOverrides, testSettings, testTracker } from "../../world/Settings.ts"
import { makeUpstreams, repository, type Upstreams } from "../../world/Upstreams.ts"
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
  /** Makes the call at once, or not at all, and ends by the script. */
  const play = <A>(call: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.gen(function* () {
      const [outcome = standing, ...later] = coming
      coming = later
      const { arrives = false, defect = false, failure, takes = 0 } = outcome
      // What arrives does so at once, also when its answer comes late or never.
      const own = failure === undefined || arrives ? yield* Effect.exit(call) : Exit.void
      if (takes > 0) yield* takes === Number.POSITIVE_INFINITY ? Effect.never : Effect.sleep(takes)
      if (defect) return yield* Effect.dieMessage("a mistake")
      return failure === undefined ? yield* own as Exit.Exit<A, E> : yield* Effect.fail(failure)
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

const makeTracker = (simulator: Upstreams["tracker"], real: TrackerService, now: () => number) => {
  const state = {
    /** Those that lists still hide, too. */
    issues: () => simulator.issues(repository),
    /** Another issue of the same account. */
    add: (body: string) => simulator.addIssue(repository, { login: "harbor-bot", body }),
    setListLag: simulator.setListLag,
    filing: makeScript(),
    searching: makeScript<UpstreamFailure | SearchTooLong>(),
    sent: [] as { readonly at: number; readonly body: string }[],
    searches: [] as { readonly at: number; readonly since: number }[],
    /** Calls of `file` that run, at most so far, and when the last one was interrupted. */
    running: 0,
    most: 0,
    interruptedAt: 0,
    closing: (_: number): UpstreamFailure | undefined => undefined
  }
  const service: TrackerService = {
    enabled: true,
    file: (draft) =>
      Effect.acquireUseRelease(
        Effect.sync(() => {
          state.sent.push({ at: now(), body: draft.body })
          state.running += 1
          state.most = Math.max(state.most, state.running)
        }),
        () => state.filing.play(real.file(draft)),
        (_, exit) =>
          Effect.sync(() => {
            state.running -= 1
            if (Exit.isInterrupted(exit)) state.interruptedAt = now()
          })
      ),
    findByMarker: (marker, since) =>
      Effect.suspend(() => {
        state.searches.push({ at: now(), since })
        return state.searching.play(real.findByMarker(marker, since))
      }),
    closeDuplicate: (issue, original) =>
      Effect.suspend(() => {
        const failure = state.closing(issue.number)
        return failure === undefined ? real.closeDuplicate(issue, original) : Effect.fail(failure)
      })
  }
  return { state, service }
}

const openTables = ["musicclidaemon", "musicfrontendevents"] as const

const makeTables = (simulator: Upstreams["tables"], real: TablesService, now: () => number) => {
  const batches: Array<{ readonly at: number; readonly records: ReadonlyArray<TableRecord> }> = []
  const retired = new Set<TableName>()
  const script = makeScript()
  const service: TablesService = {
    ...real,
    write: (records) =>
      Effect.suspend(() => {
        batches.push({ at: now(), records })
        const closed = records.filter(({ table }) => retired.has(table))
        const refused = closed.map(({ recordId }) => ({ recordId, code: "unauthorized" }))
        const written = Effect.map(real.write(Arr.difference(records, closed)), (result) => ({
          ...result,
          refused: [...result.refused, ...refused]
        }))
        return script.play(written)
      })
  }
  const stored = (table: TableName = "musicclidaemon") =>
    [...new Set(simulator.rows(table).map((row) => row.record_id))].toSorted()
  const copies = () =>
    openTables.reduce((sum, table) => sum + simulator.rows(table).length - stored(table).length, 0)
  return { batches, retired, script, service, stored, copies }
}

/** A simulated clock for the scope, which the test moves. */
export const makeTime = (startAt: number) =>
  Effect.gen(function* () {
    const time = makeSimulatedTime(startAt)
    yield* Effect.withClockScoped(time.clock)
    yield* Effect.locallyScoped(FiberRef.currentScheduler, scheduler)
    const pass = (seconds: number) => Effect.promise(() => time.runUntil(time.elapsed() + seconds * 1_000))
    return { ...time, pass }
  })

interface Given {
  readonly settings?: SettingsOverrides
  readonly limits?: Partial<DeliveryLimits>
  readonly around?: Around
  /** A connection of its own, which is not woken by others; default: the world's store. */
  readonly alone?: boolean
}

export const makeHarness = Effect.gen(function* () {
  const time = yield* makeTime(Date.parse("2026-11-21T10:00:00Z"))
  const { jump, now, pass } = time
  const path = yield* freshPath
  const store = yield* openStore(path)
  const { deliveries, reports } = store
  const { clientOf, ...upstreams } = makeUpstreams({ time, faults: makeFaults(), observers: [] })
  const settings = testSettings(upstreams.settings(openTables))
  const client = clientOf({ name: "server", isAlive: () => true, kill: () => undefined })
  const ports = yield* Layer.build(
    Layer.merge(parts.tracker, parts.tables).pipe(
      Layer.provide([Layer.succeed(HttpClient, client), Layer.succeed(Settings, settings)])
    )
  )
  const tracker = makeTracker(upstreams.tracker, Context.get(ports, Tracker), now)
  const tables = makeTables(upstreams.tables, Context.get(ports, Tables), now)
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
      yield* pass(0)
      /** Shuts down in order, and moves the clock until the shutdown is over. */
      const stop = Effect.gen(function* () {
        const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
        yield* pass(0)
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
    jump,
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
    issues: () => upstreams.issues().map(({ comments, state }) => `${state} ${comments.length}`),
    /** Deliveries by state. */
    states: Effect.map(deliveries.counts, (counts) =>
      Object.fromEntries(counts.map((row) => [row.state, row.count]))
    )
  }
})
