/**
 * Closed loop against the peer and against Node itself: the same requests to each server in turn, medians over the rounds.
 */
import type { SimulatedUpstreams } from "../sandbox/SimulatedUpstreams.ts"
import { closedLoop, type Length, type Measured, type NextRequest, placeholder, template } from "./Load.ts"
import { median } from "./Median.ts"
import { login, requestsOf } from "./Requests.ts"
import { type Programs, type Server, type ServerName, serverNames, startServer } from "./Servers.ts"

export const comparedCalls = ["healthz", "me", "report", "telemetry"] as const
export type ComparedCall = (typeof comparedCalls)[number]

export const manyConnections = 64
export const connectionCounts = [manyConnections, 1] as const

export interface Sample extends Pick<Measured, "failed" | "perSecond" | "p50" | "p99"> {
  /** Microseconds of the server's CPU for a request. */
  readonly cpuMicros: number
  /** Part of its core that the server used. */
  readonly serverShare: number
  /** Part of its core that the load and the simulated upstreams used. */
  readonly loadShare: number
}

export interface Ratios {
  readonly sampleOf: (server: ServerName, call: ComparedCall, connections: number) => Sample | undefined
  /** MiB: the most resident memory during all of these calls. */
  readonly loadedOf: (server: ServerName) => number
}

export interface Effort {
  readonly rounds: number
  readonly warmUp: Length
  readonly many: Length
  readonly one: Length
}

/** The requests of a connection. */
const requestOf = (
  world: SimulatedUpstreams,
  tokens: ReadonlyArray<string>
): Readonly<Record<ComparedCall, (connection: number) => NextRequest>> => {
  const requests = requestsOf(world, () => placeholder)
  return {
    healthz: () => template(requests.healthz()),
    me: (connection) => template(requests.me(tokens[connection % tokens.length] ?? "")),
    report: () => template(requests.report()),
    telemetry: () => template(requests.telemetry())
  }
}

/**
 * The budget for IAM is 10,000 calls a minute, of which known credentials may use 6,500 (docs/api.md): the requests of `me` to one
 * process stay below. Most of them warm up, because V8 compiles more code of this service than of the peer.
 */
const meLengths: Readonly<Record<"warmUp" | "many" | "one", Length>> = {
  warmUp: { seconds: 10, requests: 3_000 },
  many: { seconds: 10, requests: 2_500 },
  one: { seconds: 10, requests: 900 }
}

const measure = async (
  server: Server,
  connections: number,
  length: Length,
  nextOf: (connection: number) => NextRequest
): Promise<Sample> => {
  const cpu = server.cpuMillis()
  const own = process.cpuUsage()
  const began = performance.now()
  const { answered, failed, p50, p99, perSecond } = await closedLoop(server.url, connections, length, nextOf)
  const took = performance.now() - began
  const used = server.cpuMillis() - cpu
  const { system, user } = process.cpuUsage(own)
  return {
    failed,
    perSecond,
    p50,
    p99,
    cpuMicros: (used * 1_000) / answered,
    serverShare: used / took,
    loadShare: (system + user) / 1_000 / took
  }
}

export const compareWithPeer = async (
  programs: Programs,
  world: SimulatedUpstreams,
  effort: Effort,
  progress: (text: string) => void
): Promise<Ratios> => {
  const samples = new Map<string, Array<Sample>>()
  const memories = new Map<ServerName, Array<number>>()
  const keyOf = (server: ServerName, call: ComparedCall, connections: number) =>
    `${server} ${call} ${connections}`
  let tokens: ReadonlyArray<string> = []

  const measureServer = async (name: ServerName): Promise<void> => {
    const server = await startServer(programs, name, world)
    try {
      // The peer has no login: it gets the sessions that this service made in the same round.
      if (name === "ours") tokens = await login(server.url, world, manyConnections)
      const next = requestOf(world, tokens)
      for (const call of name === "raw" ? (["healthz"] as const) : comparedCalls) {
        const lengthOf = (part: "warmUp" | "many" | "one"): Length =>
          call === "me" ? meLengths[part] : effort[part]
        await closedLoop(server.url, manyConnections, lengthOf("warmUp"), next[call])
        for (const connections of connectionCounts) {
          const part = connections === 1 ? "one" : "many"
          const sample = await measure(server, connections, lengthOf(part), next[call])
          const key = keyOf(name, call, connections)
          samples.set(key, [...(samples.get(key) ?? []), sample])
          progress(
            `${key}: ${Math.round(sample.perSecond)}/s, ${Math.round(sample.cpuMicros)} us, p99 ${sample.p99.toFixed(1)} ms, failed ${sample.failed}`
          )
        }
      }
      memories.set(name, [...(memories.get(name) ?? []), server.memory().peak])
    } finally {
      await server.stop()
    }
  }

  for (let round = 0; round < effort.rounds; round += 1)
    for (const name of serverNames) await measureServer(name)

  const middle = (all: ReadonlyArray<Sample>): Sample => ({
    failed: Math.max(...all.map(({ failed }) => failed)),
    perSecond: median(all.map(({ perSecond }) => perSecond)),
    p50: median(all.map(({ p50 }) => p50)),
    p99: median(all.map(({ p99 }) => p99)),
    cpuMicros: median(all.map(({ cpuMicros }) => cpuMicros)),
    serverShare: median(all.map(({ serverShare }) => serverShare)),
    loadShare: median(all.map(({ loadShare }) => loadShare))
  })
  return {
    sampleOf: (server, call, connections) => {
      const all = samples.get(keyOf(server, call, connections))
      return all === undefined ? undefined : middle(all)
    },
    loadedOf: (server) => median(memories.get(server) ?? [])
  }
}
