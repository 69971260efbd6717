/** Open loop at a fixed rate with the mix of a day, against this service now and before. */
import type { SimulatedUpstreams } from "../sandbox/SimulatedUpstreams.ts"
import { type Measured, type NextRequest, openLoop, placeholder, serialise, template } from "./Load.ts"
import { median } from "./Median.ts"
import { login, requestsOf } from "./Requests.ts"
import { type Programs, startServer } from "./Servers.ts"

/** Requests a second. */
export const openRate = 100
const openServers = ["now", "before"] as const
type OpenServer = (typeof openServers)[number]

/** Requests of each call in a hundred. */
const dayMix = { telemetry: 55, me: 35, ting: 4, webhook: 3, report: 3 } as const

const sessions = 64
/** Steps through the hundred so that each call is spread evenly; it has no divisor in common with 100. */
const stride = 37

const makeMix = (world: SimulatedUpstreams, tokens: ReadonlyArray<string>): NextRequest => {
  const requests = requestsOf(world, () => placeholder)
  let sent = 0
  const tokenOf = () => tokens[sent % tokens.length] ?? ""
  const perToken = (make: (token: string) => NextRequest): NextRequest => {
    const templates = new Map(tokens.map((token) => [token, make(token)]))
    return () => templates.get(tokenOf())?.() ?? ""
  }
  const next: Readonly<Record<keyof typeof dayMix, NextRequest>> = {
    telemetry: template(requests.telemetry()),
    me: perToken((token) => template(requests.me(token))),
    ting: perToken((token) => template(requests.ting(token))),
    // Signed with the time, so each is made anew.
    webhook: () => serialise(requests.webhook()),
    report: template(requests.report())
  }
  const hundred = [
    ...Array.from({ length: dayMix.telemetry }, () => next.telemetry),
    ...Array.from({ length: dayMix.me }, () => next.me),
    ...Array.from({ length: dayMix.ting }, () => next.ting),
    ...Array.from({ length: dayMix.webhook }, () => next.webhook),
    ...Array.from({ length: dayMix.report }, () => next.report)
  ]
  return () => {
    sent += 1
    return hundred[(sent * stride) % hundred.length]?.() ?? ""
  }
}

type OpenSample = Pick<Measured, "failed" | "p50" | "p99">
export type OpenLoops = (server: OpenServer) => OpenSample

export const runOpenLoops = async (
  programs: Programs,
  world: SimulatedUpstreams,
  effort: { readonly rounds: number; readonly seconds: number },
  progress: (text: string) => void
): Promise<OpenLoops> => {
  const samples: Record<OpenServer, Array<OpenSample>> = { now: [], before: [] }

  const measureServer = async (name: OpenServer): Promise<void> => {
    const server = await startServer(programs, name, world)
    try {
      const next = makeMix(world, await login(server.url, world, sessions))
      await openLoop(server.url, { perSecond: 2 * openRate, seconds: 3 }, next)
      const sample = await openLoop(server.url, { perSecond: openRate, seconds: effort.seconds }, next)
      samples[name].push(sample)
      progress(`${name} open loop: p50 ${sample.p50.toFixed(1)}, p99 ${sample.p99.toFixed(1)} ms`)
    } finally {
      await server.stop()
    }
  }

  for (let round = 0; round < effort.rounds; round += 1)
    for (const name of openServers) await measureServer(name)

  return (name) => ({
    failed: Math.max(...samples[name].map(({ failed }) => failed)),
    p50: median(samples[name].map(({ p50 }) => p50)),
    p99: median(samples[name].map(({ p99 }) => p99))
  })
}
