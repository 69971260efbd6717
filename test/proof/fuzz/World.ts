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
import { settingsFor, startUpstreams } from "../../../sandbox/SimulatedUpstreams.ts"
import { production } from "../../../sandbox/upstreams/Iam.ts"
import { Backend, Listening } from "../../../src/Backend.ts"
import { Settings } from "../../../src/services/Settings.ts"

export type PlaneName = "production" | "testing"
const planeNames = ["production", "testing"] as const

/** A session that IAM granted to this suite. */
export interface LiveSession {
  readonly plane: PlaneName
  readonly actor: string
  readonly organisation: string
  readonly access: string
  readonly refresh: string
}

/** A file system in memory, where there is one: this suite asks what is written, not when the disk has it. */
const memory = "/dev/shm"

const organisation = "acme"
const mostSpendable = 200

interface Grant {
  readonly access_token: string
  readonly refresh_token: string
  readonly org_id: string
  readonly actor: { readonly public_id: string }
}

/** The session of an answer that has one. */
export const sessionOf = (plane: PlaneName, text: string): LiveSession => {
  // The answer of a login or refresh, which the laws compare with its schema.
  const grant = JSON.parse(text) as Grant
  return {
    plane,
    actor: grant.actor.public_id,
    organisation: grant.org_id,
    access: grant.access_token,
    refresh: grant.refresh_token
  }
}

/** A console whose lines go to one function. */
const readingConsole = (readLine: (line: string) => void) => {
  const read = (...parts: ReadonlyArray<unknown>) => {
    for (const line of parts.map(String).join(" ").split("\n")) readLine(line)
  }
  const reading = (...parts: ReadonlyArray<unknown>) => Effect.sync(() => read(...parts))
  const plain = Effect.runSync(Effect.console)
  const names = ["debug", "error", "info", "log", "trace", "warn"] as const
  const all = <A>(one: A) =>
    Object.fromEntries(names.map((name) => [name, one])) as Record<(typeof names)[number], A>
  return { ...plain, ...all(reading), unsafe: { ...plain.unsafe, ...all(read) } }
}

/** `readLog` receives every line of the log. */
export const startWorld = async (people: number, readLog: (line: string) => void) => {
  const folder = mkdtempSync(join(existsSync(memory) ? memory : tmpdir(), "music-fuzz-"))
  const databasePath = join(folder, "music.sqlite")
  const scope = Effect.runSync(Scope.make())
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
  const { port, upstreams } = await Effect.runPromise(
    Effect.withConsole(Scope.extend(start, scope), readingConsole(readLog))
  )
  const { controls } = upstreams.iam
  const { environment } = upstreams.seeded
  const planes: Readonly<Record<PlaneName, string>> = { production, testing: environment.environmentId }
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
  const login = async (plane: PlaneName, actor: string): Promise<LiveSession> => {
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
    return sessionOf(plane, text)
  }

  const staying: Record<PlaneName, Array<LiveSession>> = { production: [], testing: [] }
  const spendable: Record<PlaneName, Array<LiveSession>> = { production: [], testing: [] }
  return {
    port,
    databasePath,
    upstreams,
    /** The secret that selects the testing plane. */
    testingSecret: environment.musicSecret,
    webOrigin: "http://localhost:5173",
    people: names,
    /** The planes by their names in the upstreams. */
    planes,
    /** SLTs of the logins by which the suite made its sessions. */
    ownSlts,
    mintSlt,
    /** Access tokens live for half an hour, which a run on a busy machine outlasts. */
    renew: async (): Promise<void> => {
      for (const plane of planeNames) {
        const renewed: Array<LiveSession> = []
        for (const actor of names) renewed.push(await login(plane, actor))
        staying[plane] = renewed
      }
    },
    /** A session that stays. */
    sessionOf: (plane: PlaneName, person: number): LiveSession => {
      const session = staying[plane][person % people]
      if (session === undefined) throw new Error("no person has a session")
      return session
    },
    /** A session for a refresh or a logout to spend. */
    takeSession: async (plane: PlaneName, person: number): Promise<LiveSession> =>
      spendable[plane].shift() ?? (await login(plane, names[person % people] ?? "")),
    keepSession: (session: LiveSession): void => {
      const pool = spendable[session.plane]
      if (pool.length < mostSpendable && !pool.some(({ refresh }) => refresh === session.refresh))
        pool.push(session)
    },
    close: async (): Promise<void> => {
      await Effect.runPromise(Scope.close(scope, Exit.void))
      rmSync(folder, { recursive: true, force: true })
    }
  }
}

export type World = Awaited<ReturnType<typeof startWorld>>
