/**
 * Fiber operations of a request: the steps of Effect's run loop, counted by the scheduler that is asked before each of them.
 * Sequential requests to a warm server in this process; the number has no noise, so a test compares it with a committed table.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as pause } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as LogLevel from "effect/LogLevel"
import * as Scheduler from "effect/Scheduler"
import * as Schema from "effect/Schema"
import {
  mintSlt,
  settingsFor,
  startUpstreams,
  type SimulatedUpstreams
} from "../sandbox/SimulatedUpstreams.ts"
import { Backend, Listening } from "../src/Backend.ts"
import { Settings } from "../src/services/Settings.ts"
import { decodeSession, type Outgoing, requestsOf, send } from "./Requests.ts"

/** The calls in the order of the table. */
export const countedCalls = [
  "healthz",
  "version",
  "iam",
  "webhook",
  "report",
  "telemetry",
  "me",
  "logout",
  "refresh",
  "ting",
  "subscribe",
  "login"
] as const
type CountedCall = (typeof countedCalls)[number]
type OperationCounts = Readonly<Record<CountedCall, number>>

/** The most that each call may cost; the calls without a number have no bound of their own. */
export const operationBounds: Partial<OperationCounts> = {
  healthz: 260,
  webhook: 450,
  report: 500,
  telemetry: 500,
  me: 600,
  refresh: 750,
  ting: 900,
  login: 1_000
}

/** Counted in the same way at commit 0301b74, whose server and transport were interpreters of its own. */
export const operationsBefore: OperationCounts = {
  healthz: 11,
  version: 11,
  iam: 13,
  webhook: 65,
  report: 76,
  telemetry: 57,
  me: 104,
  logout: 101,
  refresh: 185,
  ting: 247,
  subscribe: 246,
  login: 366
}

const tableFile = fileURLToPath(new URL("operations.json", import.meta.url))
const OperationTable = Schema.parseJson(
  Schema.Record({ key: Schema.Literal(...countedCalls), value: Schema.Number })
)

export const readOperationTable = (): OperationCounts =>
  Schema.decodeSync(OperationTable)(readFileSync(tableFile, "utf8"))
export const operationTableFile = tableFile

/** Milliseconds without an operation after which the server counts as idle. */
const quietMillis = 6

interface Counter {
  readonly scheduler: Scheduler.Scheduler
  readonly count: () => number
}

const makeCounter = (): Counter => {
  const base = new Scheduler.MixedScheduler(2048)
  let operations = 0
  return {
    scheduler: {
      scheduleTask: (task, priority, fiber) => base.scheduleTask(task, priority, fiber),
      shouldYield: (fiber) => {
        operations += 1
        return base.shouldYield(fiber)
      }
    },
    count: () => operations
  }
}

/** Until the server runs no operation for a moment, so that work after the response counts too. */
const untilQuiet = async (count: () => number): Promise<number> => {
  for (let before = count(); ; ) {
    await pause(quietMillis)
    const now = count()
    if (now === before) return now
    before = now
  }
}

/** One call of the table: the requests that prepare it are not counted. */
interface Measured {
  readonly prepare?: () => Promise<void>
  readonly request: () => Outgoing
  readonly finish?: (text: string) => void
}

const measuredCalls = async (
  url: string,
  world: SimulatedUpstreams
): Promise<Readonly<Record<CountedCall, Measured>>> => {
  const requests = requestsOf(world)
  const login = async () => decodeSession(await send(url, requests.login(mintSlt(world))))
  let session = await login()
  let ending = session
  return {
    healthz: { request: requests.healthz },
    version: { request: requests.version },
    iam: { request: requests.iam },
    webhook: { request: requests.webhook },
    report: { request: requests.report },
    telemetry: { request: requests.telemetry },
    me: { request: () => requests.me(session.access_token) },
    ting: { request: () => requests.ting({ actor: "si:deejay", token: session.access_token }) },
    subscribe: { request: () => requests.subscribe(session.access_token) },
    login: { request: () => requests.login(mintSlt(world)) },
    logout: {
      prepare: async () => {
        ending = await login()
      },
      request: () => requests.logout(ending.refresh_token)
    },
    refresh: {
      request: () => requests.refresh(session.refresh_token),
      finish: (text) => {
        session = decodeSession(text)
      }
    }
  }
}

/** Requests before the counted ones. */
const warmUps = 3

/**
 * The least count of each call, because timers of the server add operations now and then. The tracker and the table service do not answer, so that delivery waits in the background instead of
 * working while a call is counted.
 */
export const countOperations = ({
  calls = countedCalls,
  repetitions = 25
}: {
  readonly calls?: ReadonlyArray<CountedCall>
  readonly repetitions?: number
} = {}): Promise<ReadonlyMap<CountedCall, number>> => {
  const counter = makeCounter()
  const folder = mkdtempSync(join(tmpdir(), "music-operations-"))
  const program = Effect.gen(function* () {
    const world = yield* startUpstreams(() => Date.now())
    const silent = [world.tracker, world.tables]
    for (const upstream of silent) upstream.fail({ times: Number.POSITIVE_INFINITY, fault: { kind: "hang" } })
    const settings = settingsFor(world, {
      bind: { host: "127.0.0.1", port: 0 },
      databasePath: join(folder, "music.sqlite"),
      logLevel: LogLevel.None
    })
    const unlimited = { ...settings, rateLimit: false, iam: { ...settings.iam, callsPerMinute: 10_000 } }
    const context = yield* Layer.build(Backend.pipe(Layer.provide(Layer.succeed(Settings, unlimited))))
    const { url } = yield* Effect.provide(Listening, context)
    return yield* Effect.promise(async () => {
      const measured = await measuredCalls(url, world)
      await untilQuiet(counter.count)
      const found = new Map<CountedCall, number>()
      for (const name of calls) {
        const { finish, prepare, request } = measured[name]
        const countOnce = async (): Promise<number> => {
          await prepare?.()
          const outgoing = request()
          const before = prepare === undefined ? counter.count() : await untilQuiet(counter.count)
          const text = await send(url, outgoing)
          const after = await untilQuiet(counter.count)
          finish?.(text)
          return after - before
        }
        for (let warmUp = 0; warmUp < warmUps; warmUp += 1) await countOnce()
        const counts: Array<number> = []
        while (counts.length < repetitions) counts.push(await countOnce())
        found.set(name, Math.min(...counts))
      }
      // Ends the calls that hang; the server's stop would wait for them.
      await Promise.all(silent.map((upstream) => upstream.close()))
      return found
    })
  })
  return Effect.runPromise(
    program.pipe(
      Effect.scoped,
      Effect.ensuring(Effect.sync(() => rmSync(folder, { recursive: true, force: true }))),
      Effect.withScheduler(counter.scheduler)
    )
  )
}
