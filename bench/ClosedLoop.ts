/** Closed loop: the same requests to each server in turn, medians over the rounds. */
import type { SimulatedUpstreams } from "../sandbox/SimulatedUpstreams.ts"
import { closedLoop, type Length, type NextRequest, placeholder, template } from "./Load.ts"
import { median } from "./Median.ts"
import { login, requestsOf } from "./Requests.ts"
import { type Programs, type Server, type ServerName, serverNames, startServer } from "./Servers.ts"

export const comparedCalls = ["healthz", "me", "report", "telemetry"] as const
export type ComparedCall = (typeof comparedCalls)[number]

const connections = 16

/** One number of a server for a call. */
type Quantity = "perSecond" | "p99" | "cpuMicros" | "failed"
type Sample = Readonly<Record<Quantity, number>>

/** The median of a quantity; NaN where it was not measured. */
export type Medians = (server: ServerName, call: ComparedCall, quantity: Quantity) => number

export interface Effort {
  readonly rounds: number
  readonly warmUp: Length
  readonly measured: Length
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

/** With a budget of 10,000 calls to IAM a minute, one actor has 2,727 (docs/limits.md): the requests of `me` to one process stay below. */
const meEffort: Pick<Effort, "warmUp" | "measured"> = {
  warmUp: { seconds: 10, requests: 1_000 },
  measured: { seconds: 10, requests: 1_500 }
}

const measure = async (
  server: Server,
  length: Length,
  nextOf: (connection: number) => NextRequest
): Promise<Sample> => {
  const cpu = server.cpuMillis()
  const { answered, failed, p99, perSecond } = await closedLoop(server.url, connections, length, nextOf)
  const cpuMicros = ((server.cpuMillis() - cpu) * 1_000) / answered
  return { failed, perSecond, p99, cpuMicros }
}

export const runClosedLoops = async (
  programs: Programs,
  world: SimulatedUpstreams,
  effort: Effort,
  progress: (text: string) => void
): Promise<Medians> => {
  const samples = new Map<string, Array<Sample>>()

  const measureServer = async (name: ServerName): Promise<void> => {
    const server = await startServer(programs, name, world)
    try {
      const next = requestOf(world, name === "bare" ? [] : await login(server.url, world, connections))
      for (const call of name === "bare" ? (["healthz"] as const) : comparedCalls) {
        const { measured, warmUp } = call === "me" ? meEffort : effort
        await closedLoop(server.url, connections, warmUp, next[call])
        const sample = await measure(server, measured, next[call])
        const key = `${name} ${call}`
        samples.set(key, [...(samples.get(key) ?? []), sample])
        progress(`${key}: ${Math.round(sample.perSecond)}/s, p99 ${sample.p99.toFixed(1)} ms`)
      }
    } finally {
      await server.stop()
    }
  }

  for (let round = 0; round < effort.rounds; round += 1)
    for (const name of serverNames) await measureServer(name)

  return (server, call, quantity) =>
    median((samples.get(`${server} ${call}`) ?? []).map((sample) => sample[quantity]))
}
