/** The work without a caller: reports are filed, duplicates closed, telemetry shipped. A cell fails the calls to one path for 35 s. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { type StoreService, tablesDestination, trackerDestination } from "../../../src/services/Store.ts"
import { bodyOf, requests } from "../../world/Driver.ts"
import { type PathName, paths } from "../../world/Faults.ts"
import type { World } from "../../world/World.ts"
import type { Failure } from "./Failures.ts"
import { address, countCalls, injure, inWorld, type Observation, pass } from "./Observation.ts"

export type WorkName = "report delivery" | "search after a lost answer" | "duplicates" | "telemetry"

/** Milliseconds for which the failure lasts; duplicates are searched after three searches, a second send and the delay. */
const outage = { usual: 35_000, duplicates: 200_000 }
/** Milliseconds after which the pauses of a failure are over: 10 minutes of backoff, 5 between probes of what is stopped. */
const recovery = {
  tracker: 700_000,
  tables: 60_000,
  /** An upstream may ask for an hour at most. */ long: 3_700_000
}
/** Fewer polls, and a search for duplicates that need not wait for an hour. */
const delivery = { lease: 900_000, sweepDelay: 120_000, telemetryPollInterval: 600_000 }

interface Work {
  /** Brings the work to the point where the path is called next. */
  readonly prepare: () => Promise<void>
  readonly state: () => Promise<string>
  /** What an operator does about work that was given up. */
  readonly repair: () => Promise<void>
  readonly problems: () => Promise<ReadonlyArray<string>>
}

interface Given {
  readonly world: World
  readonly store: StoreService
}

const run = Effect.runPromise

const reportWork = (
  { store, world }: Given,
  kind: "report" | "sweep",
  { hidden, lost }: { readonly lost?: boolean; readonly hidden?: number } = {}
): Work => {
  const { faults, instances, time, upstreams } = world
  let id = ""
  const find = () => run(store.deliveries.find(`${kind}:${id}`))
  return {
    prepare: async () => {
      // The issue is filed, and its answer lost; the list hides it for so many seconds.
      if (lost === true) faults.plan({ path: "create", fault: { kind: "lost", when: "after" } })
      if (hidden !== undefined) upstreams.tracker.setListLag(hidden)
      const sent = requests.report("Playback stops after a seek.", "matrix-key-0000000000001")
      const [instance] = instances
      if (instance !== undefined) id = String(bodyOf(await time.complete(instance.send(address, sent))).id)
    },
    state: async () => {
      const state = Option.match(await find(), { onNone: () => "none", onSome: (found) => found.state })
      const { stopped } = await run(store.destinations.find(trackerDestination))
      return stopped ? `${state}, stopped` : state
    },
    repair: async () => void (await run(store.deliveries.retry(`${kind}:${id}`, time.now()))),
    problems: async () => {
      const issues = upstreams.issues()
      const open = issues.filter(({ state }) => state === "open").length
      const isDelivered = Option.exists(await find(), ({ state }) => state === "delivered")
      return [
        ...(isDelivered ? [] : ["not delivered in the end"]),
        ...(open === 1 ? [] : [`${open} open issues`]),
        ...(kind === "report" && issues.length !== 1 ? [`filed ${issues.length} times`] : [])
      ]
    }
  }
}

const events = [1, 2, 3].map((at) => ({
  id: `0000000${at}-0000-4000-8000-000000000001`,
  type: "playback.started"
}))

const table = "musicclidaemon"

const telemetryWork = ({ store, world }: Given): Work => {
  const { instances, time, upstreams } = world
  const counts = async () => (await run(store.spool.counts)).find((row) => row.table === table)
  return {
    prepare: async () => {
      const [instance] = instances
      if (instance !== undefined) await time.complete(instance.send(address, requests.telemetry(events)))
    },
    state: async () => {
      const row = await counts()
      const { stopped } = await run(store.destinations.find(tablesDestination))
      const { stopped: closed } = await run(store.destinations.find(`table ${table}`))
      const parts = (["waiting", "delivered", "duplicates", "refused"] as const)
        .filter((name) => (row?.[name] ?? 0) > 0)
        .map((name) => `${name} ${row?.[name]}`)
      return [...parts, ...(stopped ? ["stopped"] : []), ...(closed ? ["closed"] : [])].join(", ")
    },
    repair: () => Promise.resolve(),
    problems: async () => {
      const row = await counts()
      const rows = upstreams.tables.rows(table).length
      const accepted = row?.accepted ?? 0
      return [
        ...(row?.waiting === 0 ? [] : [`${row?.waiting} records still wait`]),
        ...(rows === accepted - (row?.refused ?? 0) ? [] : [`${rows} rows for ${accepted} accepted records`])
      ]
    }
  }
}

const works: Readonly<Record<WorkName, (given: Given) => Work>> = {
  "report delivery": (given) => reportWork(given, "report"),
  "search after a lost answer": (given) => reportWork(given, "report", { lost: true }),
  // The list hides the first issue for longer than all searches, so the report is filed twice.
  duplicates: (given) => reportWork(given, "sweep", { lost: true, hidden: 60 }),
  telemetry: telemetryWork
}

export const observeWork = (work: WorkName, path: PathName, failure: Failure): Promise<Observation> =>
  inWorld({ delivery, tables: work === "telemetry" ? [table] : [] }, async (world) => {
    const { faults, instances, time, upstreams } = world
    const store = await time.complete(instances[0]?.store() ?? Promise.reject(new Error("no instance")))
    const { prepare, problems, repair, state } = works[work]({ world, store })
    // Before, because the work begins at once.
    injure(world, [path], paths[path].upstream, failure)
    await prepare()
    await pass(world, work === "duplicates" ? outage.duplicates : outage.usual)
    const counts = countCalls(world, 0)
    const beside = (["create", "list"] as const)
      .filter((one) => one !== path && counts.has(one))
      .map((one) => `${one} ×${counts.get(one)}`)
    const before = await state()
    faults.heal()
    upstreams.tracker.setListLag(0)
    const ofTables = work === "telemetry"
    await pass(
      world,
      failure.group === "limit long" ? recovery.long : recovery[ofTables ? "tables" : "tracker"]
    )
    const isGivenUp = (await state()).startsWith("failed")
    if (isGivenUp) {
      await repair()
      await pass(world, 120_000)
    }
    return {
      text: `${before} ×${counts.get(path) ?? 0}${ofTables || beside.length === 0 ? "" : ` (${beside.join(", ")})`}${isGivenUp ? " → failed" : ""}`,
      problems: await problems(),
      requests: 1,
      calls: upstreams.calls.length
    }
  })
