/** Failures of every kind, in an order that a seed chooses, through the built package. After each of them a new program must have its session. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { cp } from "node:fs/promises"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as IndexedDb from "fake-indexeddb"
import type * as EffectFace from "../../../client/effect.ts"
import type * as Promises from "../../../client/index.ts"
import type * as Files from "../../../client/node.ts"
import { seeded } from "../../world/Arbitraries.ts"
import { root } from "../../world/Fleet.ts"
import { type Built, buildClient, makeConsumer } from "../support/Built.ts"
import type { Fault } from "../support/Faulty.ts"
import { never, openLock } from "../support/Service.ts"
import { type Planned, startService } from "./Service.ts"

type SessionStore = Promises.SessionStore

const poison = (change: object) => (right: string) => JSON.stringify({ ...JSON.parse(right), ...change })
const html = {
  headers: { "content-type": "text/html", "x-request-id": "prove-1" },
  body: () => "<html>Sign in</html>"
}
const [cut, hang] = [{ instead: "cut" }, { instead: "hang" }] as const

/** Answers to a refresh that no client can use. */
const poisons: ReadonlyArray<object> = [
  ...["", "***", "ort_\nx", "ort x", "[REDACTED]", "ort_é", null, 7].map((refresh_token) => ({
    refresh_token
  })),
  ...["", "***", "oat_\r\nx", "xxxxxxxx", null].map((access_token) => ({ access_token })),
  ...[0, -1, 1e300, 1e9, "1800", null].map((expires_in) => ({ expires_in })),
  { access_token: "***", refresh_token: "***" },
  { scope: "x".repeat(400_000) },
  { testing_environment_id: "0199c1aa-0000-7000-8000-000000000001" },
  { actor: null },
  // They look right, and belong to nothing.
  { access_token: "oat_spoiled", refresh_token: "ort_spoiled" },
  { access_token: "oat_spoiled" }
]
const envelope = (code: string) =>
  JSON.stringify({ error: { code, message: "m", hint: "h", retryable: false } })

const ofRefresh: ReadonlyArray<Fault> = [
  ...poisons.map((change) => ({ body: poison(change) })),
  ...[cut, hang, ...[200, 401, 403, 407, 502].map((status) => ({ ...html, status }))].flatMap((fault) => [
    fault,
    { ...fault, before: true as const }
  ]),
  ...[200, 204, 401].map((status) => ({ status, body: () => "" })),
  ...[200, 401].map((status) => ({ status, body: (right: string) => right.slice(0, 40) })),
  ...[400, 403, 404, 409, 429, 500, 503].map((status) => ({ status, body: () => envelope("later") })),
  ...["unauthenticated", "idempotency_response_expired"].map((code) => ({
    status: 503,
    body: () => envelope(code)
  }))
]
const answers: ReadonlyArray<Planned> = [
  ...ofRefresh.map((fault) => ({ ...fault, call: "refresh" }) as const),
  ...[{ ...html, status: 401 }, cut].map((fault) => ({ ...fault, call: "me" }) as const)
]

const parts = ["lock", "load", "probe", "request", "save", "release"]
const kills = [...parts.flatMap((part) => [`before ${part}`, `after ${part}`]), "during save"]

interface Kit {
  readonly promises: typeof Promises
  readonly files: typeof Files
  readonly effects: typeof EffectFace
  readonly project: Built
}

/** One service with one session, and programs that use it one after the other. */
const playLane = async ({ project, ...kit }: Kit, seed: number, count: number) => {
  const { next: random } = seeded(seed)
  const choose = <A>(all: ReadonlyArray<A>): A => all[Math.floor(random() * all.length)] as A
  const { baseUrl, ...service } = await startService()
  const directory = join(project.path, `lane-${seed}`)
  const lost: Array<string> = []

  const makeStore = (isFile: boolean): SessionStore =>
    isFile ? kit.files.fileSessionStore({ directory }) : kit.promises.webSessionStore({ database: directory })

  /** A call that a fault meets, and one that must succeed also on a busy machine. */
  const quick = { deadlineMilliseconds: 4_000, attemptMilliseconds: 1_000, telemetry: false } as const
  const patient = { ...quick, deadlineMilliseconds: 60_000, attemptMilliseconds: 20_000 }
  /** The code of the failure of a call, or undefined. */
  const call = async (sessionStore: SessionStore, isEffect: boolean, more: object = {}) => {
    const options = { ...quick, baseUrl, source: "daemon", sessionStore, ...more } as const
    if (!isEffect) {
      const client = kit.promises.createMusicClient({ ...options, random: () => 0 })
      const { error } = await client.me()
      await client.close()
      return error?.code
    }
    const layer = kit.effects.MusicClient.layer(options).pipe(Layer.provide(FetchHttpClient.layer))
    const me = Effect.flatMap(kit.effects.MusicClient, (client) => client.me())
    const result = await Effect.runPromise(Effect.either(Effect.provide(me, layer)))
    return Either.isLeft(result) ? result.left.code : undefined
  }

  const login = async (isFile: boolean) => {
    const options = { ...patient, baseUrl, source: "cli", sessionStore: makeStore(isFile) } as const
    const client = kit.promises.createMusicClient(options)
    const { error } = await client.login(`oac_${seed}_${random()}`)
    if (error !== undefined) lost.push(`login: ${error.message}`)
  }

  /** A program that is killed at a step of its refresh. */
  const kill = async (step: string) => {
    const order = JSON.stringify({ baseUrl, directory, step })
    const program = spawn(process.execPath, [join(project.path, "program.mjs"), order], { stdio: "ignore" })
    await once(program, "exit")
  }

  /** A page that is closed while its store or the network is busy, or a disk that is full once. */
  const interrupted = (part: "save" | "probe", store: SessionStore): SessionStore => ({
    ...store,
    [part]: never,
    lock: openLock
  })
  const full = (store: SessionStore): SessionStore => {
    let isFull = true
    return {
      ...store,
      save: (...given) => {
        if (!isFull) return store.save(...given)
        isFull = false
        return Promise.reject(Object.assign(new Error("full"), { code: "ENOSPC" }))
      }
    }
  }

  /** Plays one failure; resolves to its name. */
  const fail = async (isFile: boolean, isEffect: boolean): Promise<string> => {
    const store = makeStore(isFile)
    const kind = choose(["answer", "answer", "answer", isFile ? "kill" : "crash", "race", "disk", "clock"])
    switch (kind) {
      case "answer": {
        const fault = choose(answers)
        service.plan([fault])
        await call(store, isEffect)
        return JSON.stringify({ ...fault, body: fault.body?.('{"right":1}').slice(0, 80) })
      }
      case "kill": {
        const step = choose(kills)
        await kill(step)
        return `killed ${step}`
      }
      case "crash": {
        const part = choose(["save", "probe"] as const)
        await call(interrupted(part, store), isEffect, { deadlineMilliseconds: 300 })
        return `closed at its ${part}`
      }
      case "race":
        // Every lock is broken.
        await Promise.all([1, 2, 3].map(() => call(makeStore(isFile), isEffect, { lock: openLock })))
        return "three programs at once without a lock"
      case "disk":
        await call(full(store), isEffect)
        return "a full disk"
      default: {
        const years = choose([-10, -1, 1, 20])
        const clock = { now: () => Date.now() + years * 31_557_600_000, monotonic: () => performance.now() }
        await call(store, false, { clock })
        return `a clock of ${years} years`
      }
    }
  }

  await login(true)
  for (let played = 0, isFile = true; played < count; played += 1) {
    // A session moves from the file to the page by a new login only.
    if (played === Math.floor(count / 2)) {
      isFile = false
      await login(isFile)
    }
    const isEffect = random() < 0.4
    service.expire(choose([1_800, 1_800, 0.01]))
    const name = await fail(isFile, isEffect)
    service.plan([])
    let code: string | undefined = "not asked"
    for (let attempt = 0; attempt < 3 && code !== undefined; attempt += 1)
      code = await call(makeStore(isFile), !isEffect, patient)
    if (code === undefined && !service.isOver()) continue
    lost.push(
      `seed ${seed}, failure ${played + 1}: ${name}, ${isEffect ? "Effect" : "promises"}, ${isFile ? "file" : "IndexedDB"}: ${code}`
    )
    await login(isFile)
  }
  service.close()
  return lost
}

/** Plays failures; resolves to those that cost a session. */
export const prove = async (count: number, seed: number): Promise<ReadonlyArray<string>> => {
  for (const [name, value] of Object.entries({ ...IndexedDb, indexedDB: new IndexedDb.IDBFactory() }))
    Reflect.set(globalThis, name, value)
  const built = await buildClient({ types: false })
  const project = await makeConsumer(built, ["effect", "@effect"])
  await cp(join(root, "test/client/prove/program.mjs"), join(project.path, "program.mjs"))
  const load = (name: string) =>
    import(pathToFileURL(join(project.path, "node_modules/music-client", name)).href)
  try {
    const [promises, files, effects] = await Promise.all(["index.js", "node.js", "effect.js"].map(load))
    const lanes = 8
    const all = await Promise.all(
      Array.from({ length: lanes }, (_, lane) =>
        playLane({ promises, files, effects, project }, seed * 100 + lane, Math.ceil(count / lanes))
      )
    )
    return all.flat()
  } finally {
    for (const { remove } of [built, project]) remove()
  }
}
