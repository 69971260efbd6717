/** One server process in memory: the real server and use cases over the real clients of IAM and Ting. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Random from "effect/Random"
import * as Scope from "effect/Scope"
import { HttpIam } from "../../../src/layers/iam/HttpIam.ts"
import { makeStore } from "../../../src/layers/store/repositories/Repositories.ts"
import { openDatabase } from "../../../src/layers/store/sqlite/SqliteStore.ts"
import { HttpTing } from "../../../src/layers/ting/HttpTing.ts"
import { UpstreamTransport } from "../../../src/layers/upstream/UpstreamTransport.ts"
import { Drain } from "../../../src/services/Drain.ts"
import { Settings } from "../../../src/services/Settings.ts"
import { Store } from "../../../src/services/Store.ts"
import {
  InMemoryServer,
  inMemoryServer,
  type InMemoryRequest,
  type InMemoryResponse
} from "../../support/InMemoryServer.ts"
import { testSettings } from "../../support/Settings.ts"
import * as SimulatedTables from "../../support/SimulatedTables.ts"
import { scheduler, type SimulatedTime } from "../../support/SimulatedTime.ts"
import { servicesWith, withoutDelivery } from "../../support/UseCaseLayers.ts"
import { type Caller, iamUrl, tingTypes, tingUrl, type Upstreams } from "./Upstreams.ts"

/** The connection broke, as `fetch` reports it. */
export const connectionLost = (code: "ECONNRESET" | "ECONNREFUSED"): TypeError =>
  new TypeError("fetch failed", { cause: Object.assign(new Error(code), { code }) })

export interface InstanceOptions {
  readonly name: string
  readonly time: SimulatedTime
  readonly upstreams: Upstreams
  /** Path of the database. */
  readonly database: string
  /** Calls to IAM a minute and path. */
  readonly callsPerMinute: number
  readonly onKilled: () => void
}

export interface Instance extends Caller {
  /** Rejects when the process dies meanwhile. */
  readonly send: (address: string, request: InMemoryRequest) => Promise<InMemoryResponse>
  /** Ends what is left of the process. */
  readonly close: () => Promise<void>
}

const layerOf = ({ callsPerMinute, database, upstreams }: InstanceOptions, caller: Caller) => {
  const settings = testSettings({
    iam: { url: iamUrl, callsPerMinute },
    ting: { url: tingUrl, types: tingTypes }
  })
  const store = Layer.orDie(Layer.scoped(Store, Effect.flatMap(openDatabase(database), makeStore)))
  const ports = Layer.mergeAll(HttpIam, HttpTing, SimulatedTables.layer([])).pipe(
    Layer.provideMerge(store),
    Layer.provideMerge(Drain.Default),
    Layer.provide(Layer.succeed(UpstreamTransport, { send: upstreams.sendFrom(caller) })),
    Layer.provideMerge(Layer.succeed(Settings, settings))
  )
  return inMemoryServer().pipe(Layer.provide(servicesWith(withoutDelivery)), Layer.provide(ports))
}

export const startInstance = (options: InstanceOptions): Instance => {
  const { name, onKilled, time } = options
  let alive = true
  let die: () => void = () => undefined
  const killed = new Promise<never>((_, reject) => {
    die = () => reject(connectionLost("ECONNRESET"))
  })
  killed.catch(() => undefined)
  const scope = Effect.runSync(Scope.make())
  const caller: Caller = {
    name,
    isAlive: () => alive,
    kill: () => {
      if (!alive) return
      alive = false
      die()
      onKilled()
    }
  }
  const run = <A, E>(effect: Effect.Effect<A, E>) =>
    Effect.runPromise(
      effect.pipe(
        Effect.withClock(time.clock),
        Effect.withRandom(Random.make(name)),
        Logger.withMinimumLogLevel(LogLevel.None),
        Effect.withScheduler(scheduler)
      )
    )
  let server: Promise<Context.Tag.Service<InMemoryServer>> | undefined
  const started = () => {
    server ??= time.hold(
      run(Layer.buildWithScope(layerOf(options, caller), scope)).then((context) =>
        Context.get(context, InMemoryServer)
      )
    )
    return server
  }
  return {
    ...caller,
    send: (address, request) =>
      Promise.race([started().then((running) => running.send(address, request)), killed]),
    close: () => {
      alive = false
      return run(Scope.close(scope, Exit.void))
    }
  }
}
