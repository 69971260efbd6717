/**
 * The world under test: sockets behind a trusted proxy on loopback, upstreams without limits, and live credentials of many people. Its log is
 * read line by line and not kept.
 */
import { LogLevel } from "effect"
import { production } from "../../../sandbox/upstreams/Iam.ts"
import { addActor, logInAtIam } from "../../world/Calls.ts"
import { requests } from "../../world/Driver.ts"
import { openWorld } from "../../world/World.ts"
import { clientTables } from "../../../src/schema/Telemetry.ts"

export type PlaneName = "production" | "testing"

/** A session that IAM granted to this suite. */
interface LiveSession {
  readonly actor: string
  readonly access: string
  readonly refresh: string
}

export const webOrigin = "http://localhost:5173"

/** `readLog` receives every line of the log. */
export const startWorld = async (people: number, readLog: (line: string) => void) => {
  const world = await openWorld({
    sockets: true,
    readLog,
    iamLimit: Number.POSITIVE_INFINITY,
    delivery: {},
    tables: clientTables,
    settings: {
      trustedProxies: ["127.0.0.1"],
      webOrigins: [webOrigin],
      logLevel: LogLevel.Debug,
      // One process plays all people, whom IAM would serve through many.
      iam: { callsPerMinute: 1_000_000 }
    }
  })
  const { iam, seeded } = world.upstreams
  const planes: Readonly<Record<PlaneName, string>> = {
    production,
    testing: seeded.environment.environmentId
  }
  const names = Array.from({ length: people }, (_, at) => `si:fuzz-${String(at).padStart(3, "0")}`)
  for (const plane of Object.values(planes)) for (const name of names) addActor(world, name, plane)
  const [instance] = world.instances
  const port = (await instance?.port()) ?? 0
  const testingSecret = seeded.environment.musicSecret
  const login = (plane: PlaneName, actor: string): LiveSession => ({
    actor,
    ...logInAtIam(world, actor, planes[plane])
  })
  const staying: Record<PlaneName, ReadonlyArray<LiveSession>> = { production: [], testing: [] }
  // Everybody may receive tings. A webhook of a testing plane is accepted once the plane is known.
  for (const plane of ["production", "testing"] as const)
    for (const name of names) {
      const secret = plane === "testing" ? testingSecret : undefined
      await instance?.send("192.0.2.1", requests.subscribe(login(plane, name).access, secret))
    }
  const nameAt = (person: number) => names[person % people] ?? ""
  return {
    ...world,
    port,
    /** The secret that selects the testing plane. */
    testingSecret,
    people: names,
    /** The planes by their names in the upstreams. */
    planes,
    mintSlt: (plane: PlaneName, person: number): string =>
      iam.controls.mintSlt(planes[plane], { appId: "music", actor: nameAt(person) }),
    /** Access tokens live for half an hour, which a run on a busy machine outlasts. */
    renew: (): void => {
      for (const plane of ["production", "testing"] as const)
        staying[plane] = names.map((name) => login(plane, name))
    },
    /** A session that stays. */
    sessionOf: (plane: PlaneName, person: number): LiveSession => {
      const session = staying[plane][person % people]
      if (session === undefined) throw new Error("no person has a session")
      return session
    },
    /** A session for a refresh or a logout to spend. */
    makeSession: (plane: PlaneName, person: number): LiveSession => login(plane, nameAt(person))
  }
}

export type World = Awaited<ReturnType<typeof startWorld>>
