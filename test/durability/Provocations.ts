/** Leads an instance to its crash point, by faults of upstreams and by actions beside the load. */
import { production } from "../../sandbox/upstreams/Iam.ts"
import { failures, secondaryLimit, type TrackerFailure } from "../../sandbox/upstreams/tracker/Failures.ts"
import { until } from "./Client.ts"
import { type TestDatabase, text } from "./Databases.ts"
import type { Instance } from "./Fleet.ts"
import type { Load, Story } from "./Load.ts"
import type { Provocation } from "./Points.ts"
import { ingestPath, issuesPath, repository, type Simulators } from "./Simulators.ts"

export interface Scene {
  readonly world: Simulators
  readonly database: TestDatabase
  readonly load: Load
  /** The running instance. */
  readonly instance: () => Instance
  /** Counts a report that the tracker refuses permanently. */
  readonly refusing: () => void
}

/** An operator's call may need several instances until it succeeds. */
const acrossCrashes = { every: 100, within: 120_000 }

const filings = { method: "POST", path: issuesPath } as const

/** Fails the next filing; comments are posted under other paths. */
const failFiling = ({ tracker }: Simulators, failure: TrackerFailure): void =>
  tracker.fail({ ...filings, fault: failures[failure] })

/** Repeats an operator's call until it has succeeded: the process may die during it. */
const operate = async (
  { instance }: Scene,
  done: () => Promise<boolean>,
  call: (of: Instance) => Promise<unknown>
) =>
  until(
    "an operator's call was carried out",
    async () => {
      if (await done()) return true
      const current = instance()
      if ((await current.ready) === undefined) return false
      await Promise.race([call(current), current.died])
      return await done()
    },
    acrossCrashes
  )

const notWanted = "not wanted"

/** A failed delivery that no operator has discarded; makes the tracker refuse a report for it. */
const failedDelivery = async (scene: Scene): Promise<string | undefined> => {
  const { database, load, refusing, world } = scene
  const readFailed = async () => {
    const [row] = await database.rows(
      `SELECT id FROM deliveries WHERE state = 'failed' AND last_failure <> '${notWanted}' LIMIT 1`
    )
    return text(row?.id)
  }
  failFiling(world, "spammed")
  refusing()
  await load.report()
  // Another report may have received the refusal, and another operator may have handled it.
  const found = until("a report failed", async () => (await readFailed()) !== "")
  return found.then(readFailed, () => undefined)
}

const deliveryOf = async ({ database }: Scene, id: string) => {
  const [row] = await database.rows(`SELECT state, last_failure FROM deliveries WHERE id = '${id}'`)
  return { state: text(row?.state), failure: text(row?.last_failure) }
}

const seenTimes = (
  simulator: { readonly seen: ReadonlyArray<{ readonly path: string }> },
  path: string | RegExp
) =>
  simulator.seen.filter((request) =>
    typeof path === "string" ? request.path === path : path.test(request.path)
  ).length

/** Ends the instance once the upstream's counter rises, before the upstream answers. */
const endWhen = async ({ instance }: Scene, count: () => number, end: (victim: Instance) => void) => {
  const victim = instance()
  // Requests of its predecessor may arrive until then.
  await victim.ready
  const before = count()
  await until("the upstream was asked", () => victim.isDead() || count() > before, { every: 2 }).then(
    () => end(victim),
    // Another request consumed the fault: the chain tries again.
    () => undefined
  )
}

const killWhen = (scene: Scene, done: () => number) => endWhen(scene, done, (victim) => victim.kill())
const stopWhen = (scene: Scene, begun: () => number) => endWhen(scene, begun, (victim) => victim.stop())

interface Act {
  /** The requests that the instance receives. */
  readonly story?: Story
  /** Runs before the requests. */
  readonly before?: (scene: Scene) => void
  /** Runs beside the requests. Its own requests must be acknowledged in the end, by any instance. */
  readonly beside?: (scene: Scene) => Promise<unknown>
}

const acts: Readonly<Record<Exclude<Provocation, `call ${string}`>, Act>> = {
  login: { story: "login" },
  report: { story: "report" },
  telemetry: { story: "telemetry" },
  webhook: { story: "webhook" },
  start: {},
  "revoked grant": { beside: ({ load }) => load.tingWithoutRecipient() },
  "new plane": { beside: ({ load }) => load.newPlane() },
  "slow tracker": {
    story: "report",
    before: ({ world }) => world.tracker.fail({ ...filings, fault: { kind: "delay", milliseconds: 700 } })
  },
  "limited tracker": {
    story: "report",
    before: ({ world }) =>
      world.tracker.fail({ ...filings, fault: secondaryLimit({ retryAfter: 1, status: 429 }) })
  },
  "lost answer": { story: "report", before: ({ world }) => failFiling(world, "502-after") },
  "invalid report": {
    story: "report",
    before: ({ refusing, world }) => {
      refusing()
      failFiling(world, "spammed")
    }
  },
  "tables down": { story: "telemetry", before: ({ world }) => world.tables.failIngest("before") },
  // A lagging list hides the first issue, the report is filed again, and the search for duplicates finds both.
  "two issues": {
    story: "report",
    before: ({ world }) => {
      failFiling(world, "drop-after")
      world.tracker.setListLag(60)
    },
    beside: async ({ instance, world }) => {
      const victim = instance()
      await until("a report was filed twice", () => {
        const bodies = world.tracker.issues(repository).map(({ body, state }) => `${state} ${body}`)
        return victim.isDead() || new Set(bodies).size < bodies.length
      }).catch(() => undefined)
      world.tracker.setListLag(0)
    }
  },
  "stop with a report": {
    story: "report",
    before: ({ world }) => world.tracker.fail({ ...filings, fault: { kind: "hang-after" } }),
    beside: (scene) => stopWhen(scene, () => scene.world.tracker.issues(repository).length)
  },
  "stop with telemetry": {
    story: "telemetry",
    before: ({ world }) => world.tables.fail({ path: ingestPath, fault: { kind: "hang" } }),
    beside: (scene) => stopWhen(scene, () => seenTimes(scene.world.tables, ingestPath))
  },
  "executed at IAM": {
    story: "login",
    before: ({ world }) => world.iam.fail({ path: "/api/v1/app-auth/tokens", fault: { kind: "hang-after" } }),
    beside: (scene) => killWhen(scene, () => scene.world.iam.controls.plane(production).families.size)
  },
  "executed at Ting": {
    story: "login",
    before: ({ world }) => world.ting.fail({ path: "/v1/tings", fault: { kind: "hang-after" } }),
    beside: (scene) => killWhen(scene, () => scene.world.ting.accepted(production).length)
  },
  "executed at the tracker": {
    story: "report",
    before: ({ world }) => world.tracker.fail({ ...filings, fault: { kind: "hang-after" } }),
    beside: (scene) => killWhen(scene, () => scene.world.tracker.issues(repository).length)
  },
  "executed at the tables": {
    story: "telemetry",
    before: ({ world }) => world.tables.fail({ path: ingestPath, fault: { kind: "hang-after" } }),
    beside: (scene) => killWhen(scene, () => scene.world.tables.received().batches)
  },
  "retry by an operator": {
    beside: async (scene) => {
      const id = await failedDelivery(scene)
      if (id === undefined) return
      await operate(
        scene,
        async () => (await deliveryOf(scene, id)).state !== "failed",
        (current) => current.call("deliveries.retry", id, Date.now())
      )
    }
  },
  "discard by an operator": {
    beside: async (scene) => {
      const id = await failedDelivery(scene)
      if (id === undefined) return
      await operate(
        scene,
        async () => (await deliveryOf(scene, id)).failure === notWanted,
        (current) => current.call("deliveries.discard", id, Date.now(), notWanted)
      )
    }
  }
}

/** Parameters that concern no row; for most removals a bound: nothing in a run is that old. */
const harmless: Readonly<Record<string, ReadonlyArray<unknown>>> = {
  "spool.expire": [{ acceptedBefore: 1, deliveredBefore: 1, deliveredAtMost: 1_000_000 }],
  "iamCalls.leave": ["no process", []],
  "sessionDigests.nameActor": ["no login", "no actor"]
}

const isCall = (provocation: Provocation): provocation is `call ${string}` => provocation.startsWith("call ")

export const actOf = (provocation: Provocation): Act => {
  if (!isCall(provocation)) return acts[provocation]
  const method = provocation.slice("call ".length)
  return {
    beside: async ({ instance }) => {
      const current = instance()
      if ((await current.ready) === undefined) return
      await Promise.race([current.call(method, ...(harmless[method] ?? [1])), current.died])
    }
  }
}
