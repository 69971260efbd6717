/**
 * The four upstreams: the real simulators in memory behind one function that sends, with latency and faults. Every call is told to the
 * observers.
 */
import { production } from "../../sandbox/upstreams/Iam.ts"
import type { Handle, Reply, Seen } from "../../sandbox/upstreams/Simulator.ts"
import { makeTables } from "../../sandbox/upstreams/Tables.ts"
import { makeTracker } from "../../sandbox/upstreams/Tracker.ts"
import type { Delivery, Send } from "../../src/layers/upstream/UpstreamTransport.ts"
import { iamUrl, makeIamAndTing } from "./SeededIam.ts"
import type { SimulatedTime } from "./Time.ts"
import { type Fault, type Faults, type PathName, pathOf, type UpstreamName } from "./Faults.ts"
import { answered, seenAt } from "./InMemory.ts"

export const origins: Readonly<Record<UpstreamName, string>> = {
  iam: iamUrl,
  ting: "https://ting.test",
  tables: "https://tables.test",
  tracker: "https://tracker.test"
}
export const repository = "harbor/music"
export const trackerToken = "github_pat_A1b2C3d4E5f6G7h8I9j0"

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

/** Milliseconds on the way to an upstream and back. At 0 a call has no pause. */
export interface Latency {
  readonly there?: (call: UpstreamCall) => number
  readonly back?: (call: UpstreamCall) => number
}

/** The testing secret of a call in a testing plane. */
const planeOf = ({ "x-testing-application": selector }: Readonly<Record<string, string>>): string =>
  selector === undefined
    ? production
    : (Buffer.from(selector.slice("Basic ".length), "base64").toString().split(":")[1] ?? "")

export interface UpstreamsOptions {
  readonly time: SimulatedTime
  readonly faults: Faults
  readonly observers: ReadonlyArray<Observer>
  readonly latency?: Latency | undefined
  /** IAM's requests a minute for one application and path; default: those of its contract. */
  readonly iamLimit?: number | undefined
}

export const makeUpstreams = ({ faults, iamLimit, latency, observers, time }: UpstreamsOptions) => {
  const nowAt = (upstream: UpstreamName) => () => time.now() + faults.skewOf(upstream)
  const { iam, seeded, ting } = makeIamAndTing({ iam: nowAt("iam"), ting: nowAt("ting") }, iamLimit)
  /** The planes of IAM and Ting. */
  const planes = [production, seeded.environment.environmentId]
  const tables = makeTables({ now: nowAt("tables") })
  const tableKeys = new Map<string, string>()
  const tracker = makeTracker({
    now: nowAt("tracker"),
    repositories: [repository],
    tokens: [{ token: trackerToken, login: "harbor-bot", rights: "write" }]
  })

  const none = () => ({})
  const simulators: Readonly<
    Record<
      UpstreamName,
      {
        readonly handle: Handle
        readonly decorate: (request: Seen) => Readonly<Record<string, string>>
      }
    >
  > = { iam, ting, tables: { handle: tables.handle, decorate: none }, tracker }
  const names = Object.keys(origins) as ReadonlyArray<UpstreamName>
  const calls: Array<UpstreamCall> = []

  const encode = ({ seen, upstream }: UpstreamCall, reply: Reply, mostBytes: number): Delivery => {
    const delivery = answered(reply, nowAt(upstream)(), simulators[upstream].decorate(seen))
    return delivery.body.length > mostBytes ? { _tag: "TooLarge" } : delivery
  }

  /** Runs at once without a pause, so that a call in no time takes no turn of the simulation. */
  const pause = (milliseconds: number, run: () => void): void => {
    if (milliseconds > 0) time.after(milliseconds, run)
    else run()
  }

  /** The port `UpstreamTransport` of one process. */
  const sendFrom =
    (caller: Caller): Send =>
    (request, settle) => {
      if (!caller.isAlive()) return () => undefined
      time.touch()
      const seen = seenAt(time.now(), request)
      const upstream = names.find((name) => origins[name] === request.origin)
      if (upstream === undefined) throw new Error(`nothing is at ${request.origin}`)
      const call: UpstreamCall = {
        caller,
        upstream,
        path: pathOf(upstream, seen.method, seen.path),
        plane: planeOf(request.headers),
        at: time.now(),
        seen,
        form: new URLSearchParams(upstream === "iam" ? seen.body.toString() : ""),
        fault: undefined,
        status: undefined
      }
      const fault = faults.take(call)
      call.fault = fault
      calls.push(call)
      let over = false
      const end = (delivery: Delivery, own?: Reply): void => {
        if (over || !caller.isAlive()) return
        over = true
        call.status = delivery._tag === "Answered" ? delivery.status : 0
        for (const { onDelivered } of observers) onDelivered?.(call, own)
        time.touch()
        settle(delivery)
      }
      const tooLate = () => time.after(request.deadlineAt - time.now(), () => end({ _tag: "Late" }))
      const reply = (given: Reply, own: Reply | undefined): void => {
        const milliseconds = latency?.back?.(call) ?? 0
        if (time.now() + milliseconds > request.deadlineAt) tooLate()
        else pause(milliseconds, () => end(encode(call, given, request.maxResponseBytes), own))
      }
      const conclude = (own: Reply | undefined): void => {
        switch (fault?.kind) {
          case "refused":
            end({ _tag: "NotSent", code: "ECONNREFUSED" })
            break
          case "lost":
            end({ _tag: "Lost", code: "ECONNRESET", withinResponse: fault.when === "within" })
            break
          case "hang":
            tooLate()
            break
          case "kill":
            caller.kill()
            break
          case "answer":
            reply(fault.reply, undefined)
            break
          case "alter":
            if (own !== undefined) reply(fault.alter(own, time.now()), undefined)
            break
          default:
            if (own !== undefined) reply(own, own)
        }
      }
      const execute = (): void => {
        const take = (own: Reply): void => {
          time.touch()
          for (const { onHandled } of observers) onHandled?.(call, own)
          conclude(own)
        }
        const handled = simulators[upstream].handle(seen)
        if (handled instanceof Promise) void handled.then(take)
        else take(handled)
      }
      const isBefore =
        fault?.kind === "refused" || (fault !== undefined && "when" in fault && fault.when === "before")
      for (const { onSent } of observers) onSent?.(call)
      // A call that the service gives up was sent all the same.
      pause(latency?.there?.(call) ?? 0, isBefore ? () => conclude(undefined) : execute)
      return () => {
        over = true
      }
    }

  return {
    iam,
    ting,
    tables,
    tracker,
    seeded,
    planes,
    /** A key of a table, which is made at its first use. */
    tableKey: (name: string): string => {
      const key = tableKeys.get(name) ?? tables.createTable(name)
      tableKeys.set(name, key)
      return key
    },
    /** The rows of all tables. */
    rows: () => [...tableKeys.keys()].flatMap((name) => tables.rows(name)),
    /** Every call so far, in the order in which they were sent. */
    calls,
    sendFrom,
    issues: () => tracker.issues(repository),
    /** Every credential of every simulator. None may appear in a log, a row or an answer to another. */
    minted: (): ReadonlyArray<string> => [
      ...new Set([...iam.minted, ...tables.minted, ...tracker.minted, trackerToken])
    ]
  }
}

export type Upstreams = ReturnType<typeof makeUpstreams>
