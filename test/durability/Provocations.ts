/** Leads an instance to its crash point, by faults of upstreams and by actions beside the load. */
import { repositoryName } from "../../sandbox/SimulatedUpstreams.ts"
import { production } from "../../sandbox/upstreams/Iam.ts"
import type { Fault } from "../../sandbox/upstreams/Simulator.ts"
import { trackerFaults } from "../../sandbox/upstreams/Tracker.ts"
import { type Simulators, until } from "../world/Fleet.ts"
import type { Instance } from "./Instances.ts"
import type { Load, Story } from "./Load.ts"

export const filings = { method: "POST", path: `/repos/${repositoryName}/issues` } as const
export const ingestPath = "/api/ingest"

export interface Scene {
  readonly world: Simulators
  readonly load: Load
  /** The running instance. */
  readonly instance: () => Instance
  /** Counts a report that the tracker refuses permanently. */
  readonly refusing: () => void
}

/** Fails the next filing; comments are posted under other paths. */
const failFiling = ({ tracker }: Simulators, fault: Fault): void => tracker.fail({ ...filings, fault })

/** Kills the instance once the upstream's counter rises, before the upstream answers. */
const killWhen = async ({ instance }: Scene, count: () => number): Promise<void> => {
  const victim = instance()
  // Requests of its predecessor may arrive until then.
  await victim.ready
  const before = count()
  await until("the upstream was asked", () => victim.isDead() || count() > before, { every: 2 }).then(
    () => victim.kill(),
    // Another request consumed the fault: the chain tries again.
    () => undefined
  )
}

const issuesOf = ({ tracker }: Simulators) => tracker.issues(repositoryName)

interface Act {
  /** The requests that the instance receives. */
  readonly story?: Story
  /** Runs before the requests. */
  readonly before?: (scene: Scene) => void
  /** Runs beside the requests. Its own requests must be acknowledged in the end, by any instance. */
  readonly beside?: (scene: Scene) => Promise<unknown>
}

/** An upstream executes the request and does not answer; the instance is killed meanwhile. */
const atHanging = (
  story: Story,
  hang: (world: Simulators) => void,
  count: (world: Simulators) => number
): Act => ({
  story,
  before: ({ world }) => hang(world),
  beside: (scene) => killWhen(scene, () => count(scene.world))
})

const hang = { kind: "hang-after" } as const
const hangTracker = ({ tracker }: Simulators) => tracker.fail({ ...filings, fault: hang })

const acts = {
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
    before: ({ world }) => failFiling(world, trackerFaults.rateLimited(1))
  },
  "lost answer": { story: "report", before: ({ world }) => failFiling(world, trackerFaults.badGatewayAfter) },
  "failed search": {
    story: "report",
    before: ({ world }) => {
      failFiling(world, trackerFaults.badGatewayAfter)
      world.tracker.fail({ ...filings, method: "GET", fault: trackerFaults.badGatewayAfter })
    }
  },
  "invalid report": {
    story: "report",
    before: ({ refusing, world }) => {
      refusing()
      failFiling(world, trackerFaults.spammed)
    }
  },
  "tables down": { story: "telemetry", before: ({ world }) => world.tables.failIngest("before") },
  // A lagging list hides the first issue, the report is filed again, and the search for duplicates finds both.
  "two issues": {
    story: "report",
    before: ({ world }) => {
      failFiling(world, { kind: "drop-after" })
      world.tracker.setListLag(60)
    },
    beside: async ({ instance, world }) => {
      const victim = instance()
      await until("a report was filed twice", () => {
        const bodies = issuesOf(world).map(({ body, state }) => `${state} ${body}`)
        return victim.isDead() || new Set(bodies).size < bodies.length
      }).catch(() => undefined)
      world.tracker.setListLag(0)
    }
  },
  "executed at IAM": atHanging(
    "login",
    ({ iam }) => iam.fail({ path: "/api/v1/app-auth/tokens", fault: hang }),
    ({ iam }) => iam.controls.plane(production).families.size
  ),
  "executed at Ting": atHanging(
    "login",
    ({ ting }) => ting.fail({ path: "/v1/tings", fault: hang }),
    ({ ting }) => ting.accepted(production).length
  ),
  "executed at the tracker": atHanging("report", hangTracker, (world) => issuesOf(world).length),
  "executed at the tables": atHanging(
    "telemetry",
    ({ tables }) => tables.fail({ path: ingestPath, fault: hang }),
    ({ tables }) => tables.received().batches
  )
} satisfies Readonly<Record<string, Act>>

/** How a run reaches a crash point. */
export type Provocation = keyof typeof acts

export const actOf = (provocation: Provocation): Act => acts[provocation]
