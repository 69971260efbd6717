/** The work without a caller: reports are filed, duplicates closed, telemetry shipped. A cell fails the calls to one path for 35 s. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { DeliveryLimits } from "../../../src/layers/delivery/DeliveryLimits.ts"
import { tablesDestination, trackerDestination } from "../../../src/services/Store.ts"
import type { Failure } from "./Failures.ts"
import type { Observation } from "./Observation.ts"
import { type PathName, paths } from "./Paths.ts"
import { type Server, startServer } from "./Server.ts"
import { repository, type World } from "./World.ts"

export type WorkName =
  | "report delivery"
  | "search after a lost answer"
  | "duplicates"
  | "telemetry"
  | "own telemetry"

const address = "192.0.2.1"
const json = { "content-type": "application/json" }
/** Milliseconds for which the failure lasts. */
const outage = 35_000
/** Milliseconds after which the pauses of a failure are over: 10 minutes of backoff, 5 between probes of what is stopped. */
const recovery = { tracker: 700_000, tables: 60_000 }
/** The longest pause that an upstream may ask for is an hour. */
const longRecovery = 3_700_000
/** Fewer polls, and a search for duplicates that need not wait for an hour. */
const limits: Partial<DeliveryLimits> = {
  lease: 900_000,
  sweepDelay: 120_000,
  telemetryPollInterval: 600_000
}

interface Work {
  /** Brings the work to the point where the path is called next. */
  readonly prepare: Effect.Effect<void>
  readonly state: Effect.Effect<string>
  /** What an operator does about work that was given up. */
  readonly repair: Effect.Effect<void>
  readonly problems: Effect.Effect<ReadonlyArray<string>>
}

interface Given {
  readonly world: World
  readonly server: Server
  readonly name: string
}

const sendReport = ({ name, server }: Given) =>
  Effect.promise(() =>
    server.send(address, {
      path: "/api/v1/reports",
      headers: { ...json, "idempotency-key": `matrix-key-${name.padStart(12, "0")}` },
      body: JSON.stringify({ message: `Playback stops after a seek, for the ${name}th time.` })
    })
  ).pipe(Effect.map(({ text }) => (JSON.parse(text) as { readonly id: string }).id))

/** The report's issues: each cell has another message. */
const issuesOf = ({ name, world }: Given) =>
  world.tracker.issues(repository).filter(({ body }) => body?.includes(`for the ${name}th time`) === true)

const reportWork = (given: Given, kind: "report" | "sweep", before: Effect.Effect<void>): Work => {
  const { server, world } = given
  let id = ""
  const find = Effect.suspend(() => Effect.orDie(server.store.deliveries.find(`${kind}:${id}`)))
  return {
    prepare: Effect.gen(function* () {
      yield* before
      id = yield* sendReport(given)
    }),
    state: Effect.gen(function* () {
      const delivery = yield* find
      const { stopped } = yield* Effect.orDie(server.store.destinations.find(trackerDestination))
      const state = Option.match(delivery, { onNone: () => "none", onSome: (found) => found.state })
      return stopped ? `${state}, stopped` : state
    }),
    repair: Effect.suspend(() =>
      Effect.orDie(Effect.asVoid(server.store.deliveries.retry(`${kind}:${id}`, world.time.now())))
    ),
    problems: Effect.gen(function* () {
      const delivery = yield* find
      const open = issuesOf(given).filter(({ state }) => state === "open")
      return [
        ...(Option.exists(delivery, ({ state }) => state === "delivered")
          ? []
          : ["not delivered in the end"]),
        ...(open.length === 1 ? [] : [`${open.length} open issues`]),
        ...(kind === "report" && issuesOf(given).length !== 1
          ? [`filed ${issuesOf(given).length} times`]
          : [])
      ]
    })
  }
}

/** The issue is filed, and its answer lost. */
const loseAnswer = ({ world }: Given) => Effect.sync(() => world.fail("create", { kind: "drop-after" }, 1))

const hideIssues = ({ world }: Given, seconds: number) => Effect.sync(() => world.tracker.setListLag(seconds))

const telemetryWork = (
  { server, world }: Given,
  table: "musicclidaemon" | "musicbackend",
  prepare: Effect.Effect<void>
): Work => {
  const rowsBefore = world.tables.rows(table).length
  const counts = Effect.map(Effect.orDie(server.store.spool.counts), (all) =>
    all.find((row) => row.table === table)
  )
  return {
    prepare,
    state: Effect.gen(function* () {
      const row = yield* counts
      const { stopped } = yield* Effect.orDie(server.store.destinations.find(tablesDestination))
      const { stopped: closed } = yield* Effect.orDie(server.store.destinations.find(`table ${table}`))
      const parts = (["waiting", "delivered", "duplicates", "refused"] as const)
        .filter((name) => (row?.[name] ?? 0) > 0)
        .map((name) => `${name} ${row?.[name]}`)
      return [...parts, ...(stopped ? ["stopped"] : []), ...(closed ? ["closed"] : [])].join(", ")
    }),
    repair: Effect.void,
    problems: Effect.map(counts, (row) => {
      const rows = world.tables.rows(table).length - rowsBefore
      const accepted = row?.accepted ?? 0
      return [
        ...(row?.waiting === 0 ? [] : [`${row?.waiting} records still wait`]),
        ...(rows === accepted - (row?.refused ?? 0) ? [] : [`${rows} rows for ${accepted} accepted records`])
      ]
    })
  }
}

const works: Readonly<Record<WorkName, (given: Given) => Work>> = {
  "report delivery": (given) => reportWork(given, "report", Effect.void),
  "search after a lost answer": (given) => reportWork(given, "report", loseAnswer(given)),
  duplicates: (given) =>
    // The list hides the first issue for longer than all searches, so the report is filed twice.
    reportWork(given, "sweep", Effect.zipRight(loseAnswer(given), hideIssues(given, 60))),
  telemetry: (given) =>
    telemetryWork(
      given,
      "musicclidaemon",
      Effect.promise(() =>
        given.server.send(address, {
          path: "/api/v1/telemetry",
          headers: json,
          body: JSON.stringify({
            table: "musicclidaemon",
            events: [1, 2, 3].map((at) => ({
              id: `0000000${at}-0000-4000-8000-${given.name.padStart(12, "0")}`,
              type: "playback.started"
            }))
          })
        })
      )
    ),
  "own telemetry": (given) =>
    telemetryWork(
      given,
      "musicbackend",
      Effect.promise(() => given.server.send(address, { path: "/api/v1/version" }))
    )
}

export interface WorkCell {
  readonly work: WorkName
  readonly path: PathName
  readonly failure: Failure
  readonly name: string
}

export const observeWork = (
  world: World,
  { failure, name, path, work }: WorkCell
): Effect.Effect<Observation> =>
  Effect.gen(function* () {
    const ofTables = work === "telemetry" || work === "own telemetry"
    const server = yield* Effect.orDie(
      startServer(world, {
        workers: limits,
        tables: ofTables ? [work === "telemetry" ? "musicclidaemon" : "musicbackend"] : []
      })
    )
    const given: Given = { world, server, name }
    const { prepare, problems, repair, state } = works[work](given)
    world.heal()
    world.resetCalls()
    yield* prepare
    const { injury } = failure
    if (injury.kind === "refuse") world.refuse(path, Number.POSITIVE_INFINITY)
    else if (injury.kind === "fault") world.fail(path, injury.fault, Number.POSITIVE_INFINITY)
    else world.setSkew(paths[path].upstream, injury.millis)
    // Duplicates are searched after the lost answer, three searches, a second send and the delay.
    yield* world.pass(work === "duplicates" ? 200_000 : outage)
    const calls = world.calls(path)
    const beside = (["create", "list"] as const)
      .filter((one) => one !== path && world.calls(one) > 0)
      .map((one) => `${one} ×${world.calls(one)}`)
    const now = yield* state
    const followed = world.elsewhere.seen.length
    world.heal()
    world.tracker.setListLag(0)
    yield* world.pass(
      failure.group === "limit long" ? longRecovery : recovery[ofTables ? "tables" : "tracker"]
    )
    const end = yield* state
    const givenUp = end.startsWith("failed")
    if (givenUp) {
      yield* repair
      yield* world.pass(120_000)
    }
    const wrong = yield* problems
    world.forgetRequests()
    return {
      text: `${now} ×${calls}${ofTables || beside.length === 0 ? "" : ` (${beside.join(", ")})`}${givenUp ? " → failed" : ""}`,
      problems: [...(followed > 0 ? [`${followed} redirects were followed`] : []), ...wrong],
      requests: 1
    }
  }).pipe(Effect.scoped)
