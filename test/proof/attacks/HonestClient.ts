/**
 * The process of the honest client (see Probes.ts). It asks every watched server at the same moments, whether or not earlier answers have
 * come: a server that stalls for a second gets as many slow probes as a second has.
 */
import { readFileSync } from "node:fs"
import { setTimeout as pause } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import type { Session } from "./Attack.ts"
import { ask } from "./Wire.ts"

/** A server that is probed. */
export interface Watched {
  readonly port: number
  readonly pid: number
}

/** One request of the honest client, with its repetitions. */
export interface Probe {
  readonly path: string
  /** Milliseconds of the machine's monotonic clock. */
  readonly began: number
  /** Milliseconds until the final answer. */
  readonly took: number
  /** Milliseconds of `took` in which the server waited for a processor; none where the kernel does not count them. */
  readonly waited?: number
  /** Whether the final answer was 200; else what it was. */
  readonly fault?: string
}

export type Order =
  | { readonly kind: "watch"; readonly server: Watched; readonly session: Session }
  | { readonly kind: "unwatch"; readonly port: number }
  /** Asks for the probes that began in a time, also those that have no answer yet. */
  | {
      readonly kind: "collect"
      readonly id: number
      readonly port: number
      readonly from: number
      readonly to: number
    }

export interface Collected {
  readonly id: number
  readonly probes: ReadonlyArray<Probe>
}

/** Milliseconds of the clock that all processes of a machine share. */
export const monotonic = (): number => Number(process.hrtime.bigint() / 1_000n) / 1_000

/** Loopback addresses that no attack uses. There are several, because a hanging server would reach the limit of connections of one. */
export const honestAddresses = ["127.0.0.200", "127.0.0.201", "127.0.0.202", "127.0.0.203"] as const

/** Milliseconds between two rounds, and for the final answer: that one bounds a hang, not the speed of the machine. */
const between = 250
const patience = 60_000

/** Milliseconds for which the main thread of a process was ready and did not run; undefined where the kernel does not count them. */
const runDelay = (pid: number): number | undefined => {
  try {
    const [ran, waited] = readFileSync(`/proc/${pid}/schedstat`, "latin1").split(" ").map(Number)
    return ran === undefined || ran === 0 || waited === undefined ? undefined : waited / 1e6
  } catch {
    return undefined
  }
}

interface Target {
  readonly server: Watched
  readonly session: Session
  readonly probes: Array<{ readonly began: number; readonly result: Promise<Probe> }>
}

const probe = async (
  { pid, port }: Watched,
  path: string,
  headers: Readonly<Record<string, string>> | undefined,
  from: string
): Promise<Probe> => {
  const began = monotonic()
  const delayed = runDelay(pid)
  const asked = { path, from, patience, ...(headers === undefined ? {} : { headers }) }
  let answer = await ask({ port }, asked)
  // Under load a part of the requests is refused for a second, and an honest client repeats them; `/healthz` is never refused.
  while (
    headers !== undefined &&
    answer?.status === 503 &&
    answer.body.includes('"overloaded"') &&
    monotonic() - began < patience
  ) {
    await pause(1_000)
    answer = await ask({ port }, asked)
  }
  const took = monotonic() - began
  const fault =
    answer?.status === 200
      ? {}
      : { fault: answer === undefined ? "no answer" : `${answer.status} ${answer.body}` }
  const delays = runDelay(pid)
  const waited =
    delayed === undefined || delays === undefined ? {} : { waited: Math.min(took, delays - delayed) }
  return { path, began, took, ...waited, ...fault }
}

/** The requests of a round. */
export const probedPaths = ["/healthz", "/api/v1/auth/me"] as const

const targets = new Map<number, Target>()

const startRound = (round: number): void => {
  const from = honestAddresses[round % honestAddresses.length] ?? honestAddresses[0]
  for (const { probes, server, session } of targets.values()) {
    const credentials = { Authorization: `Bearer ${session.accessToken}`, "X-Org-ID": session.organisation }
    for (const path of probedPaths)
      probes.push({
        began: monotonic(),
        result: probe(server, path, path === "/healthz" ? undefined : credentials, from)
      })
  }
}

const follow = async (order: Order): Promise<void> => {
  if (order.kind === "watch")
    targets.set(order.server.port, { server: order.server, session: order.session, probes: [] })
  else if (order.kind === "unwatch") targets.delete(order.port)
  else {
    const all = targets.get(order.port)?.probes ?? []
    const chosen = all.filter(({ began }) => began >= order.from && began <= order.to)
    const answer: Collected = { id: order.id, probes: await Promise.all(chosen.map(({ result }) => result)) }
    process.send?.(answer)
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  process.on("message", (order: Order) => void follow(order))
  process.on("disconnect", () => process.exit(0))
  process.send?.("ready")
  for (let round = 0; ; round += 1) {
    startRound(round)
    await pause(between)
  }
}
