/**
 * The service under test: the whole backend with SQLite behind a trusted proxy on loopback, simulated upstreams without limits,
 * and live credentials of many people. Its log is read line by line and not kept.
 */
import { existsSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as LogLevel from "effect/LogLevel"
import * as Scope from "effect/Scope"
import { startUpstreams, settingsFor, type SimulatedUpstreams } from "../../../sandbox/SimulatedUpstreams.ts"
import { production } from "../../../sandbox/upstreams/Iam.ts"
import { Backend, Listening } from "../../../src/Backend.ts"
import { Settings } from "../../../src/services/Settings.ts"
import type { LiveSession } from "./Draft.ts"

export type PlaneName = LiveSession["plane"]

export interface World {
  readonly port: number
  readonly databasePath: string
  readonly upstreams: SimulatedUpstreams
  /** The secret that selects the testing plane. */
  readonly testingSecret: string
  readonly webOrigin: string
  readonly people: ReadonlyArray<string>
  /** The planes by their names in the upstreams. */
  readonly planes: Readonly<Record<PlaneName, string>>
  /** SLTs of the logins by which the suite made its sessions. */
  readonly ownSlts: ReadonlySet<string>
  readonly mintSlt: (plane: PlaneName, actor: string) => string
  readonly login: (plane: PlaneName, actor: string) => Promise<LiveSession>
  readonly close: () => Promise<void>
}

/** A file system in memory, where there is one: this suite asks what is written, not when the disk has it. */
const memory = "/dev/shm"

const organisation = "acme"
const webOrigin = "http://localhost:5173"

interface Grant {
  readonly access_token: string
  readonly refresh_token: string
  readonly org_id: string
}

/** `readLog` receives every line of the log. */
export const startWorld = async (people: number, readLog: (line: string) => void): Promise<World> => {
  const folder = mkdtempSync(join(existsSync(memory) ? memory : tmpdir(), "music-fuzz-"))
  const databasePath = join(folder, "music.sqlite")
  const scope = Effect.runSync(Scope.make())
  const read = (...parts: ReadonlyArray<unknown>) => {
    for (const line of parts.map(String).join(" ").split("\n")) readLog(line)
  }
  const reading = (...parts: ReadonlyArray<unknown>) => Effect.sync(() => read(...parts))
  const plain = Effect.runSync(Effect.console)
  const console = {
    ...plain,
    debug: reading,
    error: reading,
    info: reading,
    log: reading,
    trace: reading,
    warn: reading,
    unsafe: { ...plain.unsafe, debug: read, error: read, info: read, log: read, trace: read, warn: read }
  }
  const start = Effect.gen(function* () {
    const upstreams = yield* startUpstreams(() => Date.now())
    const defaults = settingsFor(upstreams, {
      bind: { host: "127.0.0.1", port: 0 },
      databasePath,
      logLevel: LogLevel.Debug,
      logFormat: "json"
    })
    const settings = {
      ...defaults,
      trustedProxies: ["127.0.0.1"],
      // One process plays all people, whom IAM would serve through many.
      iam: { ...defaults.iam, callsPerMinute: 1_000_000 }
    }
    const context = yield* Layer.build(Backend.pipe(Layer.provide(Layer.succeed(Settings, settings))))
    const { port } = yield* Effect.provide(Listening, context)
    return { upstreams, port }
  })
  const { port, upstreams } = await Effect.runPromise(Effect.withConsole(Scope.extend(start, scope), console))
  const { controls } = upstreams.iam
  const { environment } = upstreams.seeded
  const planes = { production, testing: environment.environmentId }
  const names = Array.from({ length: people }, (_, at) => `si:fuzz-${String(at).padStart(3, "0")}`)
  for (const plane of Object.values(planes))
    for (const name of names) {
      controls.addActor(plane, name)
      controls.addMembership(plane, name, organisation)
    }
  const base = `http://127.0.0.1:${port}`
  const testing = { "x-testing-environment-key": environment.musicSecret }
  // A webhook of a testing plane is accepted once the plane is known.
  await fetch(`${base}/api/v1/iam`, { headers: testing })

  const mintSlt = (plane: PlaneName, actor: string): string =>
    controls.mintSlt(planes[plane], { appId: "music", actor })
  let logins = 0
  const ownSlts = new Set<string>()
  return {
    port,
    databasePath,
    upstreams,
    testingSecret: environment.musicSecret,
    webOrigin,
    people: names,
    planes,
    ownSlts,
    mintSlt,
    login: async (plane, actor) => {
      logins += 1
      const slt = mintSlt(plane, actor)
      ownSlts.add(slt)
      const response = await fetch(`${base}/api/v1/auth/login`, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          "idempotency-key": crypto.randomUUID(),
          "x-forwarded-for": `172.16.${logins >> 8}.${logins & 255}`,
          ...(plane === "testing" ? testing : {})
        },
        body: JSON.stringify({ slt })
      })
      const text = await response.text()
      if (response.status !== 200) throw new Error(`a login answered ${response.status} ${text}`)
      // The answer of a login that the contract test checks.
      const grant = JSON.parse(text) as Grant
      return {
        plane,
        actor,
        organisation: grant.org_id,
        access: grant.access_token,
        refresh: grant.refresh_token
      }
    },
    close: async () => {
      await Effect.runPromise(Scope.close(scope, Exit.void))
      rmSync(folder, { recursive: true, force: true })
    }
  }
}
