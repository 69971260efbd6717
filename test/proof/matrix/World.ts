/** The four simulated upstreams on real sockets, and the way of a call to them: counted by path, and refused where a cell demands it. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FiberRef from "effect/FiberRef"
import * as Layer from "effect/Layer"
import * as LogLevel from "effect/LogLevel"
import * as Random from "effect/Random"
import { makeIam, type SeededIam, seedIam } from "../../../sandbox/upstreams/Iam.ts"
import { type Fault, type Seen, startSimulator } from "../../../sandbox/upstreams/Simulator.ts"
import { startTables } from "../../../sandbox/upstreams/Tables.ts"
import { startTing } from "../../../sandbox/upstreams/Ting.ts"
import { startTracker } from "../../../sandbox/upstreams/Tracker.ts"
import { UndiciTransport } from "../../../src/layers/upstream/UndiciTransport.ts"
import { type Send, UpstreamTransport } from "../../../src/layers/upstream/UpstreamTransport.ts"
import { migratedFile } from "../../world/SqliteTemplate.ts"
import { useDates } from "./Failures.ts"
import { type PathName, paths, type UpstreamName, upstreamOf } from "./Paths.ts"
import { makeVirtualTime } from "./VirtualTime.ts"
import { start } from "../../support/UseCaseLayers.ts"

export const repository = "harbor/music"
export const trackerToken = "github_pat_A1b2C3d4E5f6G7h8I9j0"
const tingTypes = ["music.trigger.fired", "music.trigger.expired"]

/** Nothing listens there. */
const closedOrigin = "http://127.0.0.1:1"
/** Names each call, so that the simulator can say which one it withholds. */
const callHeader = "x-matrix-call"

const isOf = (name: PathName, method: string, path: string): boolean => {
  const { method: itsMethod, pattern } = paths[name]
  return method === itsMethod && pattern.test(path)
}
const names = Object.keys(paths) as ReadonlyArray<PathName>

export const makeWorld = Effect.gen(function* () {
  const time = makeVirtualTime(start)
  useDates(time.now)
  yield* Effect.withClockScoped(time.clock)
  yield* Effect.locallyScoped(FiberRef.currentMinimumLogLevel, LogLevel.None)
  // Every pause has its middle length.
  yield* Effect.withRandomScoped(Random.fixed([0.5]))

  /** Milliseconds by which an upstream's clock is wrong. */
  const skew: Record<UpstreamName, number> = { iam: 0, ting: 0, tables: 0, tracker: 0 }
  const nowAt = (upstream: UpstreamName) => () => time.now() + skew[upstream]
  const started = <S extends { readonly close: () => Promise<void> }>(start: () => Promise<S>) =>
    Effect.acquireRelease(Effect.promise(start), (simulator) => Effect.promise(simulator.close))

  const iam = makeIam({ now: nowAt("iam"), rateLimit: Number.POSITIVE_INFINITY })
  const seeded: SeededIam = seedIam(iam.controls)
  const iamServer = yield* started(() => startSimulator({ now: nowAt("iam"), ...iam }))
  const ting = yield* started(() =>
    startTing({ now: nowAt("ting"), iamUrl: iamServer.url, appSecret: seeded.production.tingSecret })
  )
  for (const type of tingTypes) {
    ting.registerType("production", "music", type)
    ting.registerType(seeded.environment.environmentId, "music", type)
  }
  const tables = yield* started(() => startTables({ now: nowAt("tables") }))
  const tableKeys = new Map(
    ["musicclidaemon", "musicbackend"].map((name) => [name, tables.createTable(name)] as const)
  )
  const tracker = yield* started(() =>
    startTracker({
      now: nowAt("tracker"),
      repositories: [repository],
      tokens: [{ token: trackerToken, login: "harbor-bot", rights: "write" }]
    })
  )
  /** Where redirects lead. Nothing may arrive there. */
  const elsewhere = yield* started(() =>
    startSimulator({ now: time.now, handle: () => ({ status: 200, body: {} }) })
  )
  const servers = { iam: iamServer, ting, tables, tracker }
  const allServers = [...Object.values(servers), elsewhere]

  const calls = new Map<PathName, number>()
  /** How many calls to a path still find nothing that listens. */
  const refusals = new Map<PathName, number>()
  const takeRefusal = (name: PathName): boolean => {
    const left = refusals.get(name) ?? 0
    refusals.set(name, left - 1)
    return left > 0
  }
  const unsettled = new Set<string>()
  let lastCall = 0
  let total = 0

  const counted =
    (send: Send): Send =>
    (request, settle) => {
      const { pathname } = new URL(request.path, request.origin)
      const name = names.find((one) => isOf(one, request.method, pathname))
      if (name !== undefined) calls.set(name, (calls.get(name) ?? 0) + 1)
      lastCall += 1
      total += 1
      const call = String(lastCall)
      unsettled.add(call)
      const cancel = send(
        {
          ...request,
          origin: name !== undefined && takeRefusal(name) ? closedOrigin : request.origin,
          headers: { ...request.headers, [callHeader]: call }
        },
        (delivery) => {
          unsettled.delete(call)
          settle(delivery)
        }
      )
      return () => {
        unsettled.delete(call)
        cancel()
      }
    }

  const transport = yield* Layer.build(UndiciTransport)
  const transportLayer = Layer.succeed(UpstreamTransport, {
    send: counted(Context.get(transport, UpstreamTransport).send)
  })

  const isHeld = (call: string) => (request: Seen) =>
    request.held === true && request.headers.get(callHeader)?.[0] === call
  const isBusy = () => [...unsettled].some((call) => !allServers.some(({ seen }) => seen.some(isHeld(call))))

  return {
    time,
    seeded,
    iam,
    ting,
    tables,
    tracker,
    elsewhere,
    elsewhereUrl: `${elsewhere.url}/elsewhere`,
    tableKeys,
    urls: {
      iam: iamServer.url,
      ting: ting.url,
      tables: tables.url,
      tracker: tracker.url
    },
    transportLayer,
    makeDatabaseFile: migratedFile,
    /** Calls since the last reset, by path. */
    calls: (name: PathName): number => calls.get(name) ?? 0,
    /** All calls to upstreams ever. */
    totalCalls: () => total,
    resetCalls: () => calls.clear(),
    refuse: (name: PathName, times: number) => void refusals.set(name, times),
    fail: (name: PathName, fault: Fault, times: number) =>
      servers[upstreamOf(name)].fail({
        method: paths[name].method,
        path: paths[name].pattern,
        times,
        fault
      }),
    setSkew: (upstream: UpstreamName, millis: number) => {
      skew[upstream] = millis
    },
    /** Ends every fault. */
    heal: () => {
      refusals.clear()
      for (const upstream of Object.keys(servers) as Array<UpstreamName>) skew[upstream] = 0
      for (const { clearFaults } of Object.values(servers)) clearFaults()
    },
    forgetRequests: () => {
      for (const { seen } of allServers) seen.length = 0
    },
    pass: (millis: number) => Effect.promise(() => time.pass(millis, isBusy)),
    passUntilDone: <A, E>(effect: Effect.Effect<A, E>, most = 120_000) =>
      time.passUntilDone(effect, isBusy, most)
  }
})

export type World = Effect.Effect.Success<typeof makeWorld>
