/**
 * The honest client, and the judge of what an attack costs it. As long as attacks run, a process of its own asks every attacked server for
 * the liveness and for a session, each on a new connection, and at the same moments the *control*: a server of the same program
 * with the same upstreams, which no attack addresses. The client is no part of the attacking process, which blocks its own event loop.
 *
 * Two measurements keep the verdict apart from the machine's speed. The control is as slow as the machine, the client and the upstreams
 * make a server that has little work. A server with much work has a further disadvantage on a busy machine: it waits for a
 * processor. The kernel counts that time (`/proc/<pid>/schedstat`), and it is no part of a probe's time.
 */
import { fork } from "node:child_process"
import { once } from "node:events"
import { fileURLToPath } from "node:url"
import { root } from "../../support/Process.ts"
import type { Session } from "./Attack.ts"
import type { AttackedServer } from "./AttackedServer.ts"
import { type Collected, type Order, type Probe, probedPaths } from "./HonestClient.ts"

const program = fileURLToPath(new URL("./HonestClient.ts", import.meta.url))

/** Probes in a row that are judged by their median, so that one outlier decides nothing: 2.5 s, or all of a shorter time. */
const inRow = 10

/** An attack is objected to when its slowest row takes longer than `factor` times the control's slowest row and the allowance. */
const factor = 5
/**
 * Milliseconds. With 19 processes for two cores, the attacks of the slice kept a row waiting for at most 1.5 s, and the one with bodies
 * in chunks of one byte for 4.8 s.
 */
const allowance = 8_000

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

export interface Probes {
  /** Probes a server from now on. */
  readonly watch: (server: AttackedServer) => void
  /**
   * Waits for the answers to all probes that began in this time, by `monotonic`, and compares a server with the control. Fewer probes of
   * a path than a row has say nothing: `isWhole` objects to them.
   */
  readonly judge: (
    server: AttackedServer,
    from: number,
    to: number,
    options?: { readonly isWhole: boolean }
  ) => Promise<Verdict>
  readonly unwatch: (server: AttackedServer) => void
  readonly end: () => void
}

/** The median of the slowest probes in a row. */
const slowestRow = (probes: ReadonlyArray<Probe>): number => {
  const times = probes.map(({ took, waited = 0 }) => took - waited)
  let most = 0
  for (let at = 0; at === 0 || at + inRow <= times.length; at += 1) {
    const row = times.slice(at, at + inRow).sort((a, b) => a - b)
    most = Math.max(most, row[Math.floor(row.length / 2)] ?? 0)
  }
  return Math.round(most)
}

const verdictOf = (own: ReadonlyArray<Probe>, control: ReadonlyArray<Probe>, isWhole: boolean): Verdict => {
  const rows = probedPaths.map((path) => {
    const of = (probes: ReadonlyArray<Probe>) => slowestRow(probes.filter((probe) => probe.path === path))
    return { path, row: of(own), controlRow: of(control) }
  })
  const faults = own.flatMap(({ fault, path, took }) =>
    fault === undefined ? [] : [`an honest GET ${path} got ${fault} after ${Math.round(took)} ms`]
  )
  const isCounted = [...own, ...control].every(({ waited }) => waited !== undefined)
  const slow = rows.flatMap(({ controlRow, path, row }) =>
    isCounted && row > factor * controlRow + allowance
      ? [`honest GETs of ${path} take ${row} ms, those of a server without attacks ${controlRow} ms`]
      : []
  )
  const isMissing = [own, control].some((probes) =>
    probedPaths.some((path) => probes.filter((probe) => probe.path === path).length < inRow)
  )
  return {
    broken: [
      ...(isWhole && isMissing ? ["too few honest requests were sent"] : []),
      ...slow,
      ...faults.slice(0, 3),
      ...(faults.length > 3 ? [`and ${faults.length - 3} more probes`] : [])
    ],
    count: own.length,
    slowest: Math.round(Math.max(0, ...own.map(({ took }) => took))),
    row: Math.max(...rows.map(({ row }) => row)),
    controlRow: Math.max(...rows.map(({ controlRow }) => controlRow))
  }
}

export const startProbes = async (control: AttackedServer, session: Session): Promise<Probes> => {
  const child = fork(program, { cwd: root, execArgv: ["--import", "tsx"] })
  await once(child, "message")
  const send = (order: Order) => child.send(order)
  const waiting = new Map<number, (probes: ReadonlyArray<Probe>) => void>()
  let last = 0
  child.on("message", ({ id, probes }: Collected) => {
    waiting.get(id)?.(probes)
    waiting.delete(id)
  })
  const collect = (port: number, from: number, to: number) =>
    new Promise<ReadonlyArray<Probe>>((resolve) => {
      last += 1
      waiting.set(last, resolve)
      send({ kind: "collect", id: last, port, from, to })
    })
  const watch = ({ pid, port }: AttackedServer) => send({ kind: "watch", server: { pid, port }, session })
  watch(control)
  return {
    watch,
    judge: async ({ port }, from, to, { isWhole } = { isWhole: false }) => {
      const [own, ofControl] = await Promise.all([collect(port, from, to), collect(control.port, from, to)])
      return verdictOf(own, ofControl, isWhole)
    },
    unwatch: ({ port }) => send({ kind: "unwatch", port }),
    end: () => child.kill()
  }
}
