/**
 * The honest client, and the judge of what an attack costs it. As long as attacks run, a process of its own (this file) asks every attacked
 * server for the liveness and for a session, each on a new connection, and at the same moments the *control*: a server of the same program
 * with the same upstreams, which no attack addresses. It asks whether or not earlier answers have come: a server that stalls for a second
 * gets as many slow probes as a second has.
 *
 * Two measurements keep the verdict apart from the machine's speed. The control is as slow as the machine, the client and the upstreams
 * make a server that has little work. A server with much work has a further disadvantage on a busy machine: it waits for a
 * processor. The kernel counts that time (`/proc/<pid>/schedstat`), and it is no part of a probe's time.
 */
import { fork } from "node:child_process"
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { setTimeout as pause } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import type { AttackedServer } from "./AttackedServer.ts"
import { ask, textOf } from "./Wire.ts"

const program = fileURLToPath(import.meta.url)

/** Milliseconds of the clock that all processes of a machine share. */
export const monotonic = (): number => Number(process.hrtime.bigint() / 1_000n) / 1_000

/** Loopback addresses that no attack uses. There are several, because a hanging server would reach the limit of connections of one. */
export const honestAddresses = ["127.0.0.200", "127.0.0.201", "127.0.0.202", "127.0.0.203"] as const
const paths = ["/healthz", "/api/v1/auth/me"] as const

/** Milliseconds between two rounds, and for the final answer: that one bounds a hang, not the speed of the machine. */
const between = 250
const patience = 60_000
/** Probes in a row that are judged by their median, so that one outlier decides nothing: 2.5 s, or all of a shorter time. */
const inRow = 10
/** An attack is objected to when its slowest row takes longer than `factor` times the control's slowest row and the allowance. */
const factor = 5
/**
 * Milliseconds. Node reads all of what has arrived before it turns to another connection, 2 to 3 microseconds for each chunk: the bodies in
 * chunks of one byte kept a row waiting for 4.2 s on a slow machine, every other attack of the slice for at most 1.5 s.
 */
const allowance = 8_000

/** One request of the honest client, with its repetitions. */
interface Probe {
  readonly port: number
  readonly path: string
  readonly began: number
  /** Milliseconds until the final answer. */
  readonly took: number
  /** Milliseconds of `took` in which the server waited for a processor; `NaN` where the kernel does not count them. */
  readonly waited: number
  /** What the final answer was instead of 200. */
  readonly fault: string | undefined
}

type Order =
  | { readonly watch: number; readonly pid: number; readonly accessToken: string }
  | { readonly unwatch: number }
  /** Asks for an echo once all probes so far have their answers. */
  | { readonly collect: number }

const runDelay = (pid: number): number => {
  try {
    const [ran, waited] = readFileSync(`/proc/${pid}/schedstat`, "latin1").split(" ").map(Number)
    return ran === 0 || waited === undefined ? Number.NaN : waited / 1e6
  } catch {
    return Number.NaN
  }
}

const probe = async (
  port: number,
  pid: number,
  path: string,
  headers: Readonly<Record<string, string>>,
  from: string
): Promise<Probe> => {
  const began = monotonic()
  const delayed = runDelay(pid)
  const asked = { path, from, headers }
  let answer = await ask({ port }, asked)
  // Under load a part of the requests is refused for a second, and an honest client repeats them; `/healthz` is never refused.
  while (path !== "/healthz" && textOf(answer).includes('"overloaded"') && monotonic() - began < patience) {
    await pause(1_000)
    answer = await ask({ port }, asked)
  }
  const took = monotonic() - began
  const said = answer === undefined ? "no answer" : `${answer.status} ${textOf(answer)}`
  return {
    ...{ port, path, began, took },
    waited: Math.min(took, runDelay(pid) - delayed),
    fault: answer?.status === 200 ? undefined : said
  }
}

const runProgram = async (): Promise<never> => {
  const targets = new Map<number, { readonly pid: number; readonly accessToken: string }>()
  const pending = new Set<Promise<unknown>>()
  process.on("message", (order: Order) => {
    if ("watch" in order) targets.set(order.watch, order)
    else if ("unwatch" in order) targets.delete(order.unwatch)
    else void Promise.all(pending).then(() => process.send?.(order))
  })
  process.on("disconnect", () => process.exit(0))
  process.send?.("ready")
  for (let round = 0; ; round += 1) {
    const from = honestAddresses[round % honestAddresses.length] ?? honestAddresses[0]
    for (const [port, { accessToken, pid }] of targets)
      for (const path of paths) {
        const headers = { Authorization: `Bearer ${accessToken}`, "X-Org-ID": "acme" }
        const one = probe(port, pid, path, path === "/healthz" ? {} : headers, from)
        const ended = one.then((result) => {
          pending.delete(ended)
          process.send?.(result)
        })
        pending.add(ended)
      }
    await pause(between)
  }
}

if (process.argv[1] === program) await runProgram()

/** What the probes of a time say. */
export interface Verdict {
  readonly broken: ReadonlyArray<string>
  readonly count: number
  /** Milliseconds of the slowest probe, with the time in which its server waited for a processor. */
  readonly slowest: number
  /** Milliseconds of the slowest rows, without that time. They are not judged where the kernel does not count it. */
  readonly row: number
  readonly controlRow: number
}

/** The median of the slowest probes in a row. */
const slowestRow = (probes: ReadonlyArray<Probe>): number => {
  const times = probes.map(({ took, waited }) => took - (waited || 0))
  let most = 0
  for (let at = 0; at === 0 || at + inRow <= times.length; at += 1) {
    const row = times.slice(at, at + inRow).sort((a, b) => a - b)
    most = Math.max(most, row[Math.floor(row.length / 2)] ?? 0)
  }
  return Math.round(most)
}

const judge = (own: ReadonlyArray<Probe>, control: ReadonlyArray<Probe>, isWhole: boolean): Verdict => {
  const on = (probes: ReadonlyArray<Probe>, path: string) => probes.filter((one) => one.path === path)
  const rows = paths.map((path) => ({
    path,
    row: slowestRow(on(own, path)),
    controlRow: slowestRow(on(control, path))
  }))
  const faults = own.flatMap(({ fault, path, took }) =>
    fault === undefined ? [] : [`an honest GET ${path} got ${fault} after ${Math.round(took)} ms`]
  )
  const isCounted = ![...own, ...control].some(({ waited }) => Number.isNaN(waited))
  const slow = rows.filter(({ controlRow, row }) => isCounted && row > factor * controlRow + allowance)
  const isMissing = [own, control].some((probes) => paths.some((path) => on(probes, path).length < inRow))
  return {
    broken: [
      ...(isWhole && isMissing ? ["too few honest requests were sent"] : []),
      ...slow.map(
        ({ controlRow, path, row }) =>
          `honest GETs of ${path} take ${row} ms, those of a server without attacks ${controlRow} ms`
      ),
      ...faults.slice(0, 3),
      ...(faults.length > 3 ? [`and ${faults.length - 3} more probes`] : [])
    ],
    count: own.length,
    slowest: Math.round(Math.max(0, ...own.map(({ took }) => took))),
    row: Math.max(...rows.map(({ row }) => row)),
    controlRow: Math.max(...rows.map(({ controlRow }) => controlRow))
  }
}

/** Starts the honest client. `accessToken`: of a session that no attack ends. */
export const startProbes = async (control: AttackedServer, accessToken: string) => {
  const child = fork(program, { execArgv: ["--import", "tsx"] })
  await once(child, "message")
  const send = (order: Order) => child.send(order)
  const all: Array<Probe> = []
  const waiting = new Map<number, () => void>()
  child.on("message", (message: Probe | { readonly collect: number }) => {
    if ("collect" in message) waiting.get(message.collect)?.()
    else all.push(message)
  })
  const watch = ({ pid, port }: AttackedServer) => send({ watch: port, pid, accessToken })
  watch(control)
  return {
    watch,
    /** Compares a server with the control, by the probes that began in this time. `isWhole` objects to fewer than a row of them. */
    judge: async ({ port }: AttackedServer, from: number, to: number, isWhole = false): Promise<Verdict> => {
      const collect = waiting.size
      await new Promise<void>((resolve) => {
        waiting.set(collect, resolve)
        send({ collect })
      })
      const of = (target: number) =>
        all.filter((one) => one.port === target && one.began >= from && one.began <= to)
      return judge(of(port), of(control.port), isWhole)
    },
    unwatch: ({ port }: AttackedServer) => send({ unwatch: port }),
    end: () => child.kill()
  }
}
