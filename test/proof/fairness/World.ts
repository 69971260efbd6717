/** One server without sockets over the real use cases and workers, simulated upstreams, and time that only the simulation moves. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import { DeliveryLive } from "../../../src/layers/delivery/Delivery.ts"
import { HttpIam } from "../../../src/layers/iam/HttpIam.ts"
import { makeStore } from "../../../src/layers/store/repositories/Repositories.ts"
import { openDatabase } from "../../../src/layers/store/sqlite/SqliteStore.ts"
import { TablesFromSettings } from "../../../src/layers/tables/HttpTables.ts"
import { HttpTing } from "../../../src/layers/ting/HttpTing.ts"
import { TrackerFromSettings } from "../../../src/layers/tracker/Tracker.ts"
import { UpstreamTransport } from "../../../src/layers/upstream/UpstreamTransport.ts"
import { Drain } from "../../../src/services/Drain.ts"
import { Settings } from "../../../src/services/Settings.ts"
import { Store } from "../../../src/services/Store.ts"
import { type Random as Numbers, seeded } from "../../durability/Random.ts"
import { type InMemoryRequest, InMemoryServer, inMemoryServer } from "../../support/InMemoryServer.ts"
import { type SettingsOverrides, testSettings } from "../../support/Settings.ts"
import { makeSimulatedTime, type SimulatedTime } from "../../support/SimulatedTime.ts"
import { servicesWith, start } from "../../support/UseCaseLayers.ts"
import { type Ledger, makeLedger } from "./Ledger.ts"
import {
  type Latency,
  makeUpstreams,
  origins,
  repository,
  trackerToken,
  type Upstreams
} from "./Upstreams.ts"

export interface Answer {
  readonly status: number
  readonly code: string | undefined
  readonly retryAfterSeconds: number | undefined
  readonly body: Readonly<Record<string, unknown>>
}

export interface World {
  readonly time: SimulatedTime
  readonly random: Numbers
  readonly ledger: Ledger
  readonly upstreams: Upstreams
  readonly send: (address: string, request: InMemoryRequest) => Promise<Answer>
  readonly requests: () => number
  /** Public ids that IAM knows. */
  readonly actors: Set<string>
  readonly close: () => Promise<void>
}

const settingsWith = (overrides: SettingsOverrides) =>
  testSettings({
    rateLimit: true,
    tracker: Option.some({
      token: Redacted.make(trackerToken),
      owner: repository.owner,
      repository: repository.name,
      url: origins.tracker,
      reconcileSeconds: [5, 15, 40]
    }),
    tables: Option.some({
      url: origins.tables,
      keys: new Map([["musicclidaemon", Redacted.make("table-of-the-simulation")]])
    }),
    ...overrides,
    iam: { url: origins.iam, ...overrides.iam },
    ting: { url: origins.ting, ...overrides.ting }
  })

const storeIn = (folder: string) =>
  Layer.orDie(Layer.scoped(Store, Effect.flatMap(openDatabase(join(folder, "music.sqlite")), makeStore)))

/** A process that is never late: the delay of its event loop is the machine's time. */
const neverLate = () => ({ isOverloaded: () => false, mean: () => 0, stop: () => undefined })

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null

const readBody = (text: string): Answer["body"] => {
  if (!text.startsWith("{")) return {}
  const value: unknown = JSON.parse(text)
  return isRecord(value) ? value : {}
}

const codeOf = ({ error }: Answer["body"]): string | undefined =>
  isRecord(error) && typeof error.code === "string" ? error.code : undefined

/** One process of the service. Several may share upstreams and a store. */
export const openServer = async (
  seed: number,
  {
    settings = {},
    store,
    time,
    upstreams
  }: {
    readonly settings?: SettingsOverrides | undefined
    readonly store: Layer.Layer<Store>
    readonly time: SimulatedTime
    readonly upstreams: Pick<Upstreams, "send">
  }
) => {
  const ports = Layer.mergeAll(
    HttpIam,
    HttpTing,
    TrackerFromSettings,
    TablesFromSettings,
    Drain.Default
  ).pipe(
    Layer.provideMerge(store),
    Layer.provide(Layer.succeed(UpstreamTransport, { send: upstreams.send })),
    Layer.provideMerge(Layer.succeed(Settings, settingsWith(settings)))
  )
  const server = inMemoryServer({ startDelay: neverLate }).pipe(
    Layer.provide(servicesWith(DeliveryLive)),
    Layer.provide(ports)
  )
  const scope = await Effect.runPromise(Scope.make())
  const context = await Effect.runPromise(
    Layer.buildWithScope(server, scope).pipe(
      Effect.withClock(time.clock),
      Effect.withRandom(Random.make(seed)),
      Logger.withMinimumLogLevel(LogLevel.None)
    )
  )
  const inMemory = Context.get(context, InMemoryServer)

  const send: World["send"] = async (address, request) => {
    time.touch()
    const { headers, status, text } = await inMemory.send(address, request)
    time.touch()
    const body = readBody(text)
    const retryAfter = headers["retry-after"]
    return {
      status,
      code: codeOf(body),
      retryAfterSeconds: retryAfter === undefined ? undefined : Number(retryAfter),
      body
    }
  }

  return {
    send,
    close: async (): Promise<void> => {
      let closed = false
      const closing = Effect.runPromise(Effect.withClock(Scope.close(scope, Exit.void), time.clock)).finally(
        () => {
          closed = true
        }
      )
      // The workers' last requests may wait for time.
      while (!closed) await time.runUntil(time.elapsed() + 1_000)
      await closing
    }
  }
}

export const openWorld = async (
  seed: number,
  {
    latency = () => 0,
    settings = {}
  }: { readonly latency?: Latency; readonly settings?: SettingsOverrides } = {}
): Promise<World> => {
  const time = makeSimulatedTime(start)
  const ledger = makeLedger(time.now)
  const upstreams = makeUpstreams(time, ledger, latency)
  const folder = mkdtempSync(join(tmpdir(), "music-fairness-"))
  const server = await openServer(seed, { settings, store: storeIn(folder), time, upstreams })
  let requests = 0

  return {
    time,
    random: seeded(seed),
    ledger,
    upstreams,
    send: (address, request) => {
      requests += 1
      return server.send(address, request)
    },
    requests: () => requests,
    actors: new Set(),
    close: async () => {
      await server.close()
      rmSync(folder, { recursive: true, force: true })
    }
  }
}
