/** Each failure, in an order that a seed chooses, through the built package. After each of them a new program must have its session. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { cp } from "node:fs/promises"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import { Effect, Either, Layer } from "effect"
import * as IndexedDb from "fake-indexeddb"
import type * as EffectFace from "../../../client/effect.ts"
import type * as Promises from "../../../client/index.ts"
import type * as Files from "../../../client/node.ts"
import { type Fault, type Reply, type Seen, startSimulator } from "../../../sandbox/upstreams/Simulator.ts"
import { seeded } from "../../world/Arbitraries.ts"
import { root } from "../../world/Fleet.ts"
import { type Built, buildClient, makeConsumer } from "../support/Built.ts"
import { makeService, never, openLock } from "../support/Service.ts"

type SessionStore = Promises.SessionStore

interface Planned {
  /** Last part of the path. */
  readonly call: "refresh" | "me"
  readonly fault: Fault
}

/** The service over sockets, with faults that are planned. */
const startService = async () => {
  const { expire, fetch, isOver } = makeService()
  const handle = async ({ body, headers, path }: Seen): Promise<Reply> => {
    const given = Object.fromEntries([...headers].map(([name, values]) => [name, String(values)]))
    const answer = await fetch(`http://service${path}`, { headers: given, body: body.toString() })
    const own = { ...Object.fromEntries(answer.headers), "x-request-id": "prove-1" }
    return { status: answer.status, headers: own, body: await answer.text() }
  }
  const { clearFaults, close, fail, url } = await startSimulator({ now: Date.now, handle })
  return {
    baseUrl: url,
    expire,
    plan: ({ call, fault }: Planned) => fail({ path: new RegExp(`/${call}$`), fault }),
    clearFaults,
    isOver,
    close
  }
}

/** The right answer with another body, status or headers. */
const altered = (body: (right: string) => string, change: Partial<Reply> = {}): Fault => ({
  kind: "alter",
  alter: (own) => ({ ...own, ...change, body: body(String(own.body)) })
})
const poisoned = (change: object) => altered((right) => JSON.stringify({ ...JSON.parse(right), ...change }))
const page = (status: number): Reply => ({
  status,
  headers: { "content-type": "text/html", "x-request-id": "prove-1" },
  body: "<html>Sign in</html>"
})

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
  { access_token: "oat_spoiled", refresh_token: "ort_spoiled", expires_in: 0.001 },
  { access_token: "oat_spoiled" },
  { actor: { type: "silicon", public_id: "si:other" } }
]
const envelope = (code: string, more: object = { hint: "h", retryable: false }) =>
  JSON.stringify({ error: { code, message: "m", ...more } })

const ofRefresh: ReadonlyArray<Fault> = [
  ...poisons.map(poisoned),
  ...(["drop", "drop-after", "hang", "hang-after"] as const).map((kind) => ({ kind })),
  ...[200, 401, 403, 407, 502].flatMap((status) =>
    (["reply", "reply-after"] as const).map((kind) => ({ kind, reply: page(status) }))
  ),
  ...[200, 204, 401].map((status) => altered(() => "", { status })),
  ...[200, 401].map((status) => altered((right) => right.slice(0, 40), { status })),
  ...[400, 403, 404, 409, 429, 500, 503].map((status) => altered(() => envelope("later"), { status })),
  ...[200, 301, 403, 503].map((status) => altered(() => envelope("unauthenticated"), { status })),
  ...[401, 503].map((status) => altered(() => envelope("idempotency_response_expired"), { status })),
  altered(() => envelope("unauthenticated", { hint: "h", retryable: true }), { status: 401 }),
  // Without the service's request id.
  altered(() => envelope("unauthenticated", {}), { status: 401, headers: {} })
]
const ofMe: ReadonlyArray<Fault> = [{ kind: "reply-after", reply: page(401) }, { kind: "drop-after" }]
const answers: ReadonlyArray<Planned> = [
  ...ofRefresh.map((fault) => ({ call: "refresh", fault }) as const),
  ...ofMe.map((fault) => ({ call: "me", fault }) as const)
]

const parts = ["lock", "load", "probe", "request", "save", "release"]
const kills = [...parts.flatMap((part) => [`before ${part}`, `after ${part}`]), "during save"]

type Failure =
  | { readonly kind: "answer"; readonly fault: Planned }
  /** A program that is killed at a step of its refresh; its session is in a file. */
  | { readonly kind: "kill"; readonly step: string }
  /** A page that is closed while its store is busy. */
  | { readonly kind: "crash"; readonly part: "save" | "probe" | "release" }
  | { readonly kind: "clock"; readonly years: number }
  /** Three programs at once, whose locks are broken; a disk that is full once. */
  | { readonly kind: "race" | "disk" }

const failures: ReadonlyArray<Failure> = [
  ...answers.map((fault) => ({ kind: "answer", fault }) as const),
  ...kills.map((step) => ({ kind: "kill", step }) as const),
  ...(["save", "probe", "release"] as const).map((part) => ({ kind: "crash", part }) as const),
  ...[-10, -1, 1, 20].map((years) => ({ kind: "clock", years }) as const),
  ...(["race", "disk", "race", "disk"] as const).map((kind) => ({ kind }))
]
/** How many failures there are. */
export const variety = failures.length

interface Kit {
  readonly promises: typeof Promises
  readonly files: typeof Files
  readonly effects: typeof EffectFace
  readonly project: Built
}

/** One service with one session, and programs that use it one after the other. */
const playLane = async ({ project, ...kit }: Kit, seed: number, chosen: ReadonlyArray<Failure>) => {
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

  const kill = async (step: string) => {
    const order = JSON.stringify({ baseUrl, directory, step })
    const program = spawn(process.execPath, [join(project.path, "program.mjs"), order], { stdio: "ignore" })
    await once(program, "exit")
  }

  const interrupted = (part: "save" | "probe" | "release", store: SessionStore) => ({
    sessionStore: part === "release" ? store : { ...store, [part]: never },
    lock: part === "release" ? { acquire: async () => never } : openLock
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

  const play = async (failure: Failure, isFile: boolean, isEffect: boolean): Promise<unknown> => {
    const store = makeStore(isFile)
    switch (failure.kind) {
      case "answer":
        service.plan(failure.fault)
        return call(store, isEffect)
      case "kill":
        return kill(failure.step)
      case "crash": {
        const { sessionStore, ...more } = interrupted(failure.part, store)
        return call(sessionStore, isEffect, { ...more, deadlineMilliseconds: 300 })
      }
      case "race":
        return Promise.all([1, 2, 3].map(() => call(makeStore(isFile), isEffect, { lock: openLock })))
      case "disk":
        return call(full(store), isEffect)
      case "clock": {
        const now = () => Date.now() + failure.years * 31_557_600_000
        return call(store, false, { clock: { now, monotonic: () => performance.now() } })
      }
    }
  }

  // A session moves from the file to the page by a new login only.
  for (const isFile of [true, false]) {
    await login(isFile)
    const here = chosen.filter(({ kind }, index) => (kind === "kill" || index % 2 === 0) === isFile)
    for (const failure of here) {
      const isEffect = random() < 0.4
      service.expire(choose([1_800, 1_800, 0.01]))
      await play(failure, isFile, isEffect)
      service.clearFaults()
      let code: string | undefined = "not asked"
      for (let attempt = 0; attempt < 3 && code !== undefined; attempt += 1)
        code = await call(makeStore(isFile), !isEffect, patient)
      if (code === undefined && !service.isOver()) continue
      const name = JSON.stringify(failure, (_, value) =>
        typeof value === "function" ? value({ status: 200, body: '{"right":1}' }) : value
      )
      const [face, place] = [isEffect ? "Effect" : "promises", isFile ? "file" : "IndexedDB"]
      lost.push(`seed ${seed}, ${face}, ${place}: ${code} after ${name}`)
      await login(isFile)
    }
  }
  await service.close()
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
    const { next } = seeded(seed)
    const order = failures.map((failure) => ({ failure, at: next() })).toSorted((a, b) => a.at - b.at)
    const rounds = Array.from({ length: Math.ceil(count / variety) }, () => order)
    const chosen = rounds.flat().slice(0, count)
    const lanes = Array.from({ length: 8 }, (_, lane) =>
      chosen.flatMap(({ failure }, index) => (index % 8 === lane ? failure : []))
    )
    const kit = { promises, files, effects, project }
    const all = await Promise.all(lanes.map((some, lane) => playLane(kit, seed * 100 + lane, some)))
    return all.flat()
  } finally {
    for (const { remove } of [built, project]) remove()
  }
}
