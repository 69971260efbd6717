/** What a simulation records: the operations of each kind of client, every request, and the calls to IAM by the kind that caused them. */
import { mostWithin } from "../../world/Oracle.ts"

/** What a client wants; it may take several requests. */
export type OperationName = "login" | "refresh" | "logout" | "me" | "ting" | "report" | "telemetry" | "plane"

/** Refreshes, logins and logouts keep sessions; the others use them. */
export type Group = "session" | "use"

const groupOf = (name: OperationName): Group =>
  name === "login" || name === "refresh" || name === "logout" ? "session" : "use"

interface Sender {
  readonly kind: string
  readonly client: string
  readonly group: Group
}

interface Call extends Sender {
  readonly at: number
  /** `served`, or the code of the refusal. */
  readonly result: string
  /** It came at the time that the refusal before it gave. */
  readonly onTime: boolean
}

/** One operation of an honest client, from its first request on. */
interface Operation extends Sender {
  readonly at: number
  attempts: number
  /** Set when it was served, or the client gave up. */
  end?: { readonly at: number; readonly isServed: boolean }
}

interface IamCall {
  readonly at: number
  readonly kind: string
  /** IAM counts by plane and path. */
  readonly path: string
  readonly status: number
}

/** What one kind of client got for one group of its operations. Parts are from 0 to 1, waits in seconds. */
export interface Row {
  /** Of the operations, those that were not given up and, at the end, not open for longer than the patience. */
  readonly served: number
  /** Of those that were refused at first: from the first request until the service. */
  readonly p99Wait: number
  /** Of the calls at the time of their `Retry-After`, those that were served. */
  readonly onTime: number
  /** Jain's index of fairness: 1 when all clients got equally much, 1/n when one got everything. */
  readonly jain: number
  /** The operations served of the client with the fewest by those of the client with the most. */
  readonly leastToMost: number
  /** Operations that were served by their first request. */
  readonly atOnce: number
}

export const minute = 60_000

const percentile = (values: ReadonlyArray<number>, part: number): number => {
  const sorted = [...values].sort((one, other) => one - other)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0
}

const jainIndex = (values: ReadonlyArray<number>): number => {
  const sum = values.reduce((total, value) => total + value, 0)
  const squares = values.reduce((total, value) => total + value * value, 0)
  return squares === 0 ? 1 : (sum * sum) / (values.length * squares)
}

/** The part of these that this is true of; 1 of none. */
const partOf = <A>(all: ReadonlyArray<A>, isTrue: (one: A) => boolean): number =>
  all.length === 0 ? 1 : all.filter(isTrue).length / all.length

export const makeLedger = (now: () => number) => {
  let calls: Array<Call> = []
  let operations: Array<Operation> = []
  const lost = new Set<string>()
  const iamCalls: Array<IamCall> = []
  let measuredFrom = 0

  const ofKind =
    (kind: string, group: Group) =>
    (one: Sender): boolean =>
      one.kind === kind && one.group === group
  const isAtOnce = ({ attempts, end }: Operation) => end?.isServed === true && attempts <= 1

  /** Of a kind that did nothing, nothing is known. `patience`: milliseconds after which an open operation counts as refused. */
  const rowOf = (kind: string, group: Group, patience: number): Row | undefined => {
    const ended = operations
      .filter(ofKind(kind, group))
      .filter(({ at, end }) => end !== undefined || now() - at > patience)
    const late = calls.filter(ofKind(kind, group)).filter(({ onTime }) => onTime)
    if (ended.length === 0) return undefined
    const served = ended.filter(({ end }) => end?.isServed === true)
    const waits = served.filter((one) => !isAtOnce(one)).map(({ at, end }) => (end?.at ?? at) - at)
    // A client whose only operation has just begun has no share yet.
    const shares = new Map(ended.map(({ client }) => [client, 0]))
    for (const { client } of served) shares.set(client, (shares.get(client) ?? 0) + 1)
    const counts = [...shares.values()]
    return {
      served: served.length / ended.length,
      p99Wait: percentile(waits, 0.99) / 1_000,
      onTime: partOf(late, ({ result }) => result === "served"),
      jain: jainIndex(counts),
      leastToMost: Math.min(...counts) / Math.max(1, ...counts),
      atOnce: ended.filter(isAtOnce).length
    }
  }

  return {
    /** `result`: the code of a refusal, or `served`. */
    begin: (kind: string, client: string, name: OperationName) => {
      const group = groupOf(name)
      const operation: Operation = { kind, client, group, at: now(), attempts: 0 }
      operations.push(operation)
      return {
        attempted: (result: string, onTime: boolean) => {
          operation.attempts += 1
          calls.push({ kind, client, group, at: now(), result, onTime })
        },
        ended: (isServed: boolean) => {
          operation.end = { at: now(), isServed }
        }
      }
    },
    /** A request of a client that has no operations: it only sends. */
    sent: (kind: string, client: string, result: string) =>
      void calls.push({ kind, client, group: "use", at: now(), result, onTime: false }),
    sessionLost: (kind: string, client: string) => void lost.add(`${kind} ${client}`),
    lostSessions: () => lost.size,
    iamCalled: (call: IamCall) => void iamCalls.push(call),
    refusedByIam: () => iamCalls.filter(({ status }) => status === 429).length,
    rowOf,
    /** Calls of a kind that ended so. */
    countOf: (kind: string, result: string) =>
      calls.filter((call) => call.kind === kind && call.group === "use" && call.result === result).length,
    servedAtOnce: (kind: string) => operations.filter(ofKind(kind, "use")).filter(isAtOnce).length,
    /** The most calls of these kinds to one path in any minute; of all kinds without names. */
    mostIamCalls: (kinds?: ReadonlyArray<string>) => {
      const byPath = new Map<string, Array<number>>()
      for (const { at, kind, path } of iamCalls) {
        if (at < measuredFrom || (kinds !== undefined && !kinds.includes(kind))) continue
        const known = byPath.get(path) ?? []
        known.push(at)
        byPath.set(path, known)
      }
      return Math.max(0, ...[...byPath.values()].map((times) => mostWithin(times, minute)))
    },
    /** From now on. What ended before was the way to the start; what is open counts from its first request. */
    measureFromNow: () => {
      measuredFrom = now()
      calls = []
      operations = operations.filter(({ end }) => end === undefined)
    }
  }
}

export type Ledger = ReturnType<typeof makeLedger>
