/**
 * The four upstreams: the real simulators in memory behind one client, with latency and faults. Every call is told to the
 * observers.
 */
import type { HttpClient } from "@effect/platform/HttpClient"
import { Effect, Option, Redacted } from "effect"
import { makeIam, production } from "../../sandbox/upstreams/Iam.ts"
import { encodeReply, type Handle, type Reply, type Seen } from "../../sandbox/upstreams/Simulator.ts"
import { makeTables } from "../../sandbox/upstreams/Tables.ts"
import { makeTing } from "../../sandbox/upstreams/Ting.ts"
import { makeTracker } from "../../sandbox/upstreams/Tracker.ts"
import type { TableName } from "../../src/schema/Telemetry.ts"
import { testNow } from "../layers/upstream/Simulated.ts"
import { type Fault, type Faults, makeFaults, type PathName, pathOf, type UpstreamName } from "./Faults.ts"
import { answered, clientOf, type Ending, seenAt } from "./InMemory.ts"
import { seedTestIam } from "./SeededIam.ts"
import { machineTime, type SimulatedTime } from "./Time.ts"

export const origins: Readonly<Record<UpstreamName, string>> = {
  iam: "https://iam.test",
  ting: "https://ting.test",
  tables: "https://tables.test",
  tracker: "https://tracker.test"
}
export const repository = "harbor/music"
const trackerToken = "github_pat_A1b2C3d4E5f6G7h8I9j0"
const tingTypes = ["music.trigger.fired", "music.trigger.expired"]

/** The server process that makes a call. */
export interface Caller {
  readonly name: string
  readonly isAlive: () => boolean
  readonly kill: () => void
}

/** One call, as the upstream would see it. */
export interface UpstreamCall {
  readonly caller: Caller
  readonly upstream: UpstreamName
  readonly path: PathName
  /** `production`, or the testing secret that selects a plane. */
  readonly plane: string
  readonly at: number
  readonly seen: Seen
  /** Fields of a form body. */
  readonly form: URLSearchParams
  fault: Fault | undefined
  /** Of the answer that the service got; 0 when it got none. */
  status: number | undefined
}

export interface Observer {
  readonly onSent?: (call: UpstreamCall) => void
  /** The upstream executed it, whatever becomes of the answer. */
  readonly onHandled?: (call: UpstreamCall, reply: Reply) => void
  /** The service got the answer of the upstream itself, or what a fault made of it. */
  readonly onDelivered?: (call: UpstreamCall, own: Reply | undefined) => void
}

/** Seconds until the deadline of a call. */
const patience: Readonly<Record<UpstreamName, number>> = { iam: 8, ting: 15, tables: 10, tracker: 15 }

/** The testing secret of a call in a testing plane. */
const planeOf = (selector: string | undefined): string =>
  selector === undefined
    ? production
    : (Buffer.from(selector.slice("Basic ".length), "base64").toString().split(":")[1] ?? "")

interface UpstreamsOptions {
  readonly time: SimulatedTime
  readonly faults: Faults
  readonly observers: ReadonlyArray<Observer>
  /** Milliseconds on the way to an upstream, and on the way back. At 0 a call has no pause. */
  readonly latency?: (() => number) | undefined
  /** IAM's requests a minute for one application and path; default: those of its contract. */
  readonly iamLimit?: number | undefined
}

export const makeUpstreams = ({ faults, iamLimit, latency, observers, time }: UpstreamsOptions) => {
  const { now } = time
  const iam = makeIam({ now, ...(iamLimit === undefined ? {} : { rateLimit: iamLimit }) })
  const seeded = seedTestIam(iam.controls)
  const ting = makeTing({
    now,
    iamUrl: origins.iam,
    appSecret: seeded.production.tingSecret,
    // Ting's own calls to IAM are neither late nor lost: their faults are those of Ting.
    fetch: (url, init) => {
      const reply = iam.handle(
        seenAt(now(), {
          url: new URL(String(url)),
          method: init?.method === "GET" ? "GET" : "POST",
          headers: Object.fromEntries(new Headers(init?.headers)),
          body: typeof init?.body === "string" ? init.body : undefined
        })
      )
      return Promise.resolve(new Response(encodeReply(reply, {}).body.toString(), { status: reply.status }))
    }
  })
  /** The planes of IAM and Ting. */
  const planes: Array<string> = []
  const addPlane = (plane: string) => {
    planes.push(plane)
    for (const type of tingTypes) ting.controls.registerType(plane, type)
  }
  for (const plane of [production, seeded.environment.environmentId]) addPlane(plane)
  const tables = makeTables({ now })
  const tableKeys = new Map<string, string>()
  const tracker = makeTracker({
    now,
    repositories: [repository],
    tokens: [{ token: trackerToken, login: "harbor-bot", rights: "write" }]
  })

  /** Made at its first use. */
  const tableKey = (name: string): string => {
    const key = tableKeys.get(name) ?? tables.createTable(name)
    tableKeys.set(name, key)
    return key
  }

  const none = () => ({})
  const simulators: Readonly<
    Record<
      UpstreamName,
      { readonly handle: Handle; readonly decorate: (request: Seen) => Readonly<Record<string, string>> }
    >
  > = { iam, ting, tables: { handle: tables.handle, decorate: none }, tracker }
  const names = Object.keys(origins) as ReadonlyArray<UpstreamName>
  const calls: Array<UpstreamCall> = []

  const encode = ({ seen, upstream }: UpstreamCall, reply: Reply): Ending =>
    answered(reply, now(), simulators[upstream].decorate(seen))

  /** Runs at once without a pause, so that a call in no time takes no turn of the simulation. */
  const pause = (milliseconds: number, run: () => void): void => {
    if (milliseconds > 0) time.after(milliseconds, run)
    else run()
  }

  /** One call of a process; `done` ends it. The returned function says that the service has left it. */
  const begin = (
    caller: Caller,
    seen: Seen,
    origin: string,
    done: (ending: Ending) => void
  ): (() => void) => {
    const upstream = names.find((name) => origins[name] === origin)
    if (upstream === undefined) throw new Error(`nothing is at ${origin}`)
    const call: UpstreamCall = {
      caller,
      upstream,
      path: pathOf(upstream, seen.method, seen.path),
      plane: planeOf(seen.headers.get("x-testing-application")?.[0]),
      at: now(),
      seen,
      form: new URLSearchParams(upstream === "iam" ? seen.body.toString() : ""),
      fault: undefined,
      status: undefined
    }
    const fault = faults.take(call)
    call.fault = fault
    calls.push(call)
    let over = false
    const conclude = (status: number, own: Reply | undefined, then: () => void): void => {
      if (over || !caller.isAlive()) return
      over = true
      call.status = status
      for (const { onDelivered } of observers) onDelivered?.(call, own)
      time.touch()
      then()
    }
    const end = (ending: Ending, own?: Reply): void =>
      conclude(ending._tag === "Answered" ? ending.status : 0, own, () => done(ending))
    const reply = (given: Reply, own: Reply | undefined): void =>
      pause(latency?.() ?? 0, () => end(encode(call, given), own))
    const answer = (own: Reply | undefined): void => {
      switch (fault?.kind) {
        case "refused":
          end({ _tag: "NotSent", code: "ECONNREFUSED" })
          break
        case "lost":
          end({ _tag: "Lost", code: "ECONNRESET", withinAnswer: fault.when === "within" })
          break
        case "hang":
          break
        case "kill":
          caller.kill()
          break
        case "answer":
          reply(fault.reply, undefined)
          break
        case "alter":
          if (own !== undefined) reply(fault.alter(own, now()), undefined)
          break
        default:
          if (own !== undefined) reply(own, own)
      }
    }
    const execute = (): void => {
      const take = (own: Reply): void => {
        time.touch()
        for (const { onHandled } of observers) onHandled?.(call, own)
        answer(own)
      }
      const handled = simulators[upstream].handle(seen)
      if (handled instanceof Promise) void handled.then(take)
      else take(handled)
    }
    const isBefore =
      fault?.kind === "refused" || (fault !== undefined && "when" in fault && fault.when === "before")
    for (const { onSent } of observers) onSent?.(call)
    // A call that the service gives up was sent all the same.
    pause(latency?.() ?? 0, isBefore ? () => answer(undefined) : execute)
    return () => {
      // At its deadline the service has an outcome. A call that it leaves before has none.
      if (now() - call.at >= patience[upstream] * 1_000) conclude(0, undefined, () => undefined)
      over = true
    }
  }

  /** The client of one process. */
  const clientFrom = (caller: Caller): HttpClient =>
    clientOf((outgoing) =>
      Effect.async<Ending>((resume) => {
        if (!caller.isAlive()) return
        time.touch()
        const leave = begin(caller, seenAt(now(), outgoing), outgoing.url.origin, (ending) =>
          resume(Effect.succeed(ending))
        )
        return Effect.sync(leave)
      })
    )

  return {
    iam,
    ting,
    tables,
    tracker,
    seeded,
    planes: planes as ReadonlyArray<string>,
    addPlane,
    /** Settings of the tracker, and of tables with a key; without one there is no table service. */
    settings: (tables: ReadonlyArray<TableName>) => ({
      tracker: Option.some({
        token: Redacted.make(trackerToken),
        owner: "harbor",
        repository: "music",
        url: origins.tracker
      }),
      tables:
        tables.length === 0
          ? Option.none()
          : Option.some({
              url: origins.tables,
              keys: new Map(tables.map((table) => [table, Redacted.make(tableKey(table))]))
            })
    }),
    /** The rows of all tables. */
    rows: () => [...tableKeys.keys()].flatMap((name) => tables.rows(name)),
    /** Every call so far, in the order in which they were sent. */
    calls,
    clientOf: clientFrom,
    issues: () => tracker.issues(repository),
    /** Every credential of every simulator. None may appear in a log, a row or an answer to another. */
    minted: (): ReadonlyArray<string> => [...new Set([...iam.minted, ...tables.minted, trackerToken])]
  }
}

export type Upstreams = ReturnType<typeof makeUpstreams>

/** The same without limits, on the clock of a test, with the client of its one process and its faults. */
export const testUpstreams = Effect.map(testNow, (now) => {
  const faults = makeFaults()
  const time = { ...machineTime, now }
  const upstreams = makeUpstreams({ time, faults, observers: [], iamLimit: Number.POSITIVE_INFINITY })
  const caller = { name: "the server", isAlive: () => true, kill: () => undefined }
  return { ...upstreams, ...faults, client: upstreams.clientOf(caller) }
})
