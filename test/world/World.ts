/**
 * The whole service in memory: instances made by `makeBackend` over one database file, the simulated upstreams, one clock, one seed and one
 * set of faults. Requests come without sockets, unless a suite needs their bytes. What every play must keep, the oracle checks.
 */
import { HttpClient } from "@effect/platform/HttpClient"
import { Context, Effect, Exit, Layer, LogLevel, Random, Scope } from "effect"
import { makeBackend, parts } from "../../src/Backend.ts"
import { application, httpApp, makeListener, quietly } from "../../src/http/Server.ts"
import { serveNode } from "../../src/http/transport/NodeServer.ts"
import { deliveryWith } from "../../src/layers/delivery/Delivery.ts"
import type { DeliveryLimits } from "../../src/layers/delivery/Worker.ts"
import { makeStore } from "../../src/layers/store/StoreHealth.ts"
import { openDatabase } from "../../src/layers/store/sqlite/SqliteStore.ts"
import type { TableName } from "../../src/schema/Telemetry.ts"
import { DeliveryHealth } from "../../src/services/usecases/Readiness.ts"
import { Settings } from "../../src/services/Settings.ts"
import { Store, type StoreService } from "../../src/services/Store.ts"
import { type SettingsOverrides, testSettings } from "./Settings.ts"
import { machineTime, makeSimulatedTime, scheduler } from "./Time.ts"
import { seeded } from "./Arbitraries.ts"
import { type Answer, connectionLost, type Sent } from "./Driver.ts"
import { makeFaults } from "./Faults.ts"
import { consoleInto, inMemory, type SendFrom } from "./InMemory.ts"
import { makeOracle } from "./Oracle.ts"
import { migratedFile } from "./SqliteTemplate.ts"
import { type Caller, makeUpstreams, type Observer, origins } from "./Upstreams.ts"

/** When every world begins. Not a full second, so that rounding errors show. */
const beginning = Date.parse("2026-11-21T10:00:00.400Z")

interface WorldOptions {
  readonly seed?: number
  /** Instances that run from the beginning; default 1. */
  readonly instances?: number
  readonly settings?: SettingsOverrides
  /** Tables that have a key; default: the daemon's. Without one there is no table service. */
  readonly tables?: ReadonlyArray<TableName>
  /** Workers that deliver, with other limits than those of production; default: none. */
  readonly delivery?: Partial<DeliveryLimits>
  /** Milliseconds on each way to and from an upstream; default none. */
  readonly latency?: () => number
  /** IAM's requests a minute for one application and path; default: those of its contract. */
  readonly iamLimit?: number
  /** Sees every call to an upstream. */
  readonly observers?: ReadonlyArray<Observer>
  /** Every pause has its middle length. */
  readonly steady?: boolean
  /** Milliseconds from the death of an instance to the start of the next one; default: none follows. */
  readonly restartAfter?: number
  /** Each instance also listens on a port of loopback, and the time is the machine's. */
  readonly sockets?: boolean
  /** Receives the lines of the log, which are not kept then. */
  readonly readLog?: (line: string) => void
}

class Running extends Context.Tag("test/world/Running")<
  Running,
  { readonly send: SendFrom; readonly store: StoreService; readonly port: number }
>() {}

/** The way of a request without sockets: order of checks, limits and envelope are the real ones, and a request costs no connection. */
const serverWith = (sockets: boolean) =>
  Layer.scoped(
    Running,
    Effect.gen(function* () {
      const listener = yield* makeListener
      const port = sockets ? (yield* quietly(Effect.flatMap(httpApp, serveNode))).port : 0
      return { send: inMemory(listener), store: yield* Store, port }
    })
  ).pipe(Layer.provide(application))

/** No background work. */
export const withoutDelivery = Layer.succeed(DeliveryHealth, {
  checks: Effect.succeed({ tracker: "off", tables: "off" } as const)
})

/** What the instances of a world share. */
const prepare = async (options: WorldOptions) => {
  const { iamLimit, latency, observers = [], seed = 1, settings: given = {} } = options
  const time = options.sockets === true ? machineTime : makeSimulatedTime(beginning)
  const faults = makeFaults()
  const upstreams = makeUpstreams({ time, faults, latency, iamLimit, observers })
  const scope = await Effect.runPromise(Scope.make())
  /** Path of the SQLite file. */
  const database = await Effect.runPromise(Scope.extend(migratedFile, scope))
  const settings = testSettings({
    databasePath: database,
    rateLimit: true,
    logLevel: LogLevel.Info,
    ...upstreams.settings(options.tables ?? ["musicclidaemon"]),
    ...given,
    iam: { url: origins.iam, ...given.iam },
    ting: { url: origins.ting, ...given.ting }
  })
  const logs: Array<string> = []
  const log = options.readLog ?? ((line: string) => void logs.push(line))
  const oracle = makeOracle({ upstreams, database, logs, callsPerMinute: settings.iam.callsPerMinute })
  return {
    options,
    seed,
    time,
    random: seeded(seed),
    faults,
    upstreams,
    scope,
    database,
    settings,
    logs,
    log,
    oracle
  }
}

/** One server process in memory. */
const startInstance = (
  { log, options, oracle, settings, time, upstreams }: Awaited<ReturnType<typeof prepare>>,
  name: string,
  onKilled: () => void
) => {
  let alive = true
  let die: () => void = () => undefined
  const killed = new Promise<never>((_, reject) => {
    die = () => reject(connectionLost("ECONNRESET"))
  })
  killed.catch(() => undefined)
  const scope = Effect.runSync(Scope.make())
  /** The process dies at once: no request is answered, no call to an upstream begins or ends. */
  const kill = () => {
    if (!alive) return
    alive = false
    die()
    onKilled()
  }
  const caller: Caller = { name, isAlive: () => alive, kill }
  const opened = Effect.flatMap(openDatabase(settings.databasePath), makeStore)
  const backend = makeBackend({
    ...parts,
    transport: Layer.succeed(HttpClient, upstreams.clientOf(caller)),
    store: Layer.orDie(Layer.scoped(Store, opened)),
    delivery: options.delivery === undefined ? withoutDelivery : deliveryWith(options.delivery),
    server: serverWith(options.sockets === true)
  }).pipe(Layer.provide(Layer.succeed(Settings, settings)))

  const run = <A, E>(effect: Effect.Effect<A, E>) =>
    Effect.runPromise(
      effect.pipe(
        Effect.withClock(time.clock),
        Effect.withRandom(options.steady === true ? Random.fixed([0.5]) : Random.make(name)),
        Effect.withConsole(consoleInto(log)),
        Effect.withScheduler(scheduler)
      )
    )
  let built: Promise<Context.Tag.Service<Running>> | undefined
  const running = () => {
    built ??= time.hold(
      run(Layer.buildWithScope(backend, scope)).then((context) => Context.get(context, Running))
    )
    return built
  }
  return {
    ...caller,
    /** Sends a request as a client with this address. Rejects when the process dies meanwhile. */
    send: async (address: string, request: Sent): Promise<Answer> => {
      time.touch()
      oracle.asked(request)
      const { send } = await Promise.race([running(), killed])
      const answer = await Promise.race([send(address, request), killed])
      oracle.answered(request, answer)
      time.touch()
      return answer
    },
    /** The store of this instance, which starts it, and the port of one with sockets. */
    store: async () => (await running()).store,
    port: async () => (await running()).port,
    /** Ends it as a stop does, or what is left of a killed one. */
    close: async () => {
      await built
      await run(Scope.close(scope, Exit.void))
      alive = false
    }
  }
}
export type Instance = ReturnType<typeof startInstance>

/** Opens a world; `close` ends all that it began. */
export const openWorld = async (options: WorldOptions = {}) => {
  const { instances: size = 1, restartAfter } = options
  const shared = await prepare(options)
  const { scope, seed, time } = shared
  const all: Array<Instance> = []
  /** Another process on the same database; the first request starts it. */
  const start = (): Instance => {
    const instance = startInstance(shared, `instance ${all.length + 1} of seed ${seed}`, () => {
      if (restartAfter !== undefined) time.after(restartAfter, start)
    })
    all.push(instance)
    return instance
  }
  for (let index = 0; index < size; index += 1) start()

  let requests = 0
  return {
    ...shared,
    /** Every instance that was started, also those that are dead. */
    instances: all as ReadonlyArray<Instance>,
    start,
    /** Sends a request through a balancer: to one instance after the other, and to none that is down. */
    send: async (address: string, request: Sent): Promise<Answer> => {
      requests += 1
      const alive = all.filter(({ isAlive }) => isAlive())
      const instance = alive[requests % alive.length]
      if (instance === undefined) throw connectionLost("ECONNREFUSED")
      return instance.send(address, request)
    },
    requests: () => requests,
    close: async (): Promise<void> => {
      for (const { close } of all) await time.complete(close())
      await Effect.runPromise(Scope.close(scope, Exit.void))
    }
  }
}

export type World = Awaited<ReturnType<typeof openWorld>>
