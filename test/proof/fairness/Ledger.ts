/** What a simulation records: the calls of each kind of client, how each operation ended, and the calls to IAM by the kind that caused them. */
import { jainIndex, mostWithin, percentile } from "./Statistics.ts"

/** What a client wants; it may take several requests. */
export type OperationName = "login" | "refresh" | "logout" | "me" | "ting" | "report" | "telemetry" | "plane"

/** Refreshes, logins and logouts keep sessions; the others use them. */
export type Group = "session" | "use"

const groupOf = (name: OperationName): Group =>
  name === "login" || name === "refresh" || name === "logout" ? "session" : "use"

export interface Attempt {
  readonly status: number
  readonly code: string | undefined
  /** It came at the time that the refusal before it gave. */
  readonly onTime: boolean
}

/** One operation of an honest client, from its first request on. */
export interface Operation {
  readonly attempted: (attempt: Attempt) => void
  readonly served: () => void
  /** The client gives up. */
  readonly refused: (code: string) => void
}

interface Open {
  readonly at: number
  readonly kind: string
  readonly group: Group
  readonly client: string
}

interface Tally {
  readonly clients: Set<string>
  calls: number
  servedCalls: number
  atOnce: number
  readonly waits: Array<number>
  refused: number
  readonly codes: Map<string, number>
  onTime: number
  onTimeServed: number
  readonly byClient: Map<string, number>
}

interface IamCall {
  readonly at: number
  readonly kind: string
  readonly path: string
  readonly status: number
}

/** A row of the result: one kind of client, and one group of its operations. */
export interface Row {
  readonly kind: string
  readonly group: Group
  readonly clients: number
  readonly calls: number
  /** Operations served by their first request, and those served later, at the time given. */
  readonly atOnce: number
  readonly waited: number
  readonly medianWait: number
  readonly p99Wait: number
  /** Operations that were given up, or are open for longer than the patience. */
  readonly refused: number
  readonly lost: number
  /** Parts, from 0 to 1. */
  readonly served: number
  readonly servedCalls: number
  readonly onTime: number
  readonly jain: number
  readonly leastToMost: number
  readonly codes: ReadonlyMap<string, number>
}

/** Milliseconds after which an operation that is still open counts as refused. */
export type Patience = (kind: string, group: Group) => number

export const minute = 60_000

export interface Ledger {
  readonly begin: (kind: string, client: string, name: OperationName) => Operation
  /** A request of a client that has no operations: it only sends. */
  readonly sent: (kind: string, client: string, status: number, code: string | undefined) => void
  readonly sessionLost: (kind: string, client: string) => void
  readonly iamCalled: (call: IamCall) => void
  readonly iamCalls: ReadonlyArray<IamCall>
  readonly rows: (patience: Patience) => ReadonlyArray<Row>
  /** How the calls of a kind ended, by code; those of status 2xx as `served`. */
  readonly codesOf: (kind: string, group: Group) => ReadonlyMap<string, number>
  readonly servedAtOnce: (kind: string, group: Group) => number
  /** The most calls of these kinds to one path in any minute; of all kinds without names. */
  readonly mostIamCalls: (kinds?: ReadonlyArray<string>) => number
  readonly lostSessions: () => number
  /** From now on. What ended before was the way to the start; what is open counts from its first request. */
  readonly measureFromNow: () => void
}

export const makeLedger = (now: () => number): Ledger => {
  const tallies = new Map<string, Tally>()
  const open = new Set<Open>()
  const lost = new Map<string, Set<string>>()
  const iamCalls: Array<IamCall> = []
  let measuredFrom = 0

  const tallyOf = (kind: string, group: Group): Tally => {
    const key = `${kind}\n${group}`
    const found = tallies.get(key)
    if (found !== undefined) return found
    const made: Tally = {
      clients: new Set(),
      calls: 0,
      servedCalls: 0,
      atOnce: 0,
      waits: [],
      refused: 0,
      codes: new Map(),
      onTime: 0,
      onTimeServed: 0,
      byClient: new Map()
    }
    tallies.set(key, made)
    return made
  }

  const count = (tally: Tally, client: string, status: number, code: string | undefined): void => {
    tally.clients.add(client)
    tally.calls += 1
    if (status < 300) tally.servedCalls += 1
    const label = status < 300 ? "served" : (code ?? String(status))
    tally.codes.set(label, (tally.codes.get(label) ?? 0) + 1)
  }

  const begin: Ledger["begin"] = (kind, client, name) => {
    const group = groupOf(name)
    const at = now()
    let attempts = 0
    const entry: Open = { at, kind, group, client }
    open.add(entry)
    tallyOf(kind, group).clients.add(client)
    return {
      attempted: ({ code, onTime, status }) => {
        const tally = tallyOf(kind, group)
        attempts += 1
        count(tally, client, status, code)
        if (!onTime) return
        tally.onTime += 1
        if (status < 300) tally.onTimeServed += 1
      },
      served: () => {
        open.delete(entry)
        const tally = tallyOf(kind, group)
        if (attempts <= 1) tally.atOnce += 1
        else tally.waits.push(now() - at)
        tally.byClient.set(client, (tally.byClient.get(client) ?? 0) + 1)
      },
      refused: () => {
        open.delete(entry)
        const tally = tallyOf(kind, group)
        tally.refused += 1
        tally.byClient.set(client, tally.byClient.get(client) ?? 0)
      }
    }
  }

  return {
    begin,
    sent: (kind, client, status, code) => count(tallyOf(kind, "use"), client, status, code),
    sessionLost: (kind, client) => {
      const clients = lost.get(kind) ?? new Set()
      lost.set(kind, clients.add(client))
    },
    iamCalled: (call) => void iamCalls.push(call),
    iamCalls,
    codesOf: (kind, group) => tallyOf(kind, group).codes,
    servedAtOnce: (kind, group) => tallyOf(kind, group).atOnce,
    rows: (patience) =>
      [...tallies].map(([key, tally]): Row => {
        const [kind = "", name] = key.split("\n")
        const group = name === "session" ? "session" : "use"
        const late = [...open].filter(
          (entry) => entry.kind === kind && entry.group === group && now() - entry.at > patience(kind, group)
        )
        const refused = tally.refused + late.length
        const ended = tally.atOnce + tally.waits.length + refused
        // A client whose only operation has just begun has no share yet.
        const byClient = new Map([...late.map(({ client }) => [client, 0] as const), ...tally.byClient])
        const shares = [...byClient.values()]
        return {
          kind,
          group,
          clients: tally.clients.size,
          calls: tally.calls,
          atOnce: tally.atOnce,
          waited: tally.waits.length,
          medianWait: percentile(tally.waits, 0.5) / 1_000,
          p99Wait: percentile(tally.waits, 0.99) / 1_000,
          refused,
          lost: lost.get(kind)?.size ?? 0,
          served: ended === 0 ? 1 : (ended - refused) / ended,
          servedCalls: tally.calls === 0 ? 0 : tally.servedCalls / tally.calls,
          onTime: tally.onTime === 0 ? 1 : tally.onTimeServed / tally.onTime,
          jain: jainIndex(shares),
          leastToMost: shares.length === 0 ? 1 : Math.min(...shares) / Math.max(1, ...shares),
          codes: new Map(tally.codes)
        }
      }),
    mostIamCalls: (kinds) => {
      const byPath = new Map<string, Array<number>>()
      for (const { at, kind, path } of iamCalls) {
        if (at < measuredFrom || (kinds !== undefined && !kinds.includes(kind))) continue
        const times = byPath.get(path) ?? []
        times.push(at)
        byPath.set(path, times)
      }
      return Math.max(0, ...[...byPath.values()].map((times) => mostWithin(times, minute)))
    },
    lostSessions: () => [...lost.values()].reduce((sum, clients) => sum + clients.size, 0),
    measureFromNow: () => {
      tallies.clear()
      for (const { client, group, kind } of open) tallyOf(kind, group).clients.add(client)
      measuredFrom = now()
    }
  }
}
