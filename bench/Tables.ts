/** The tables that the benchmark prints and writes into docs/performance.md. */
import { countedCalls, type OperationCounts, operationBounds } from "./Operations.ts"
import { type OpenLoops, openRates } from "./OpenLoop.ts"
import {
  comparedCalls,
  type ComparedCall,
  connectionCounts,
  manyConnections,
  type Ratios,
  type Sample
} from "./Ratios.ts"
import type { StartSample } from "./Start.ts"

/** Issue 10: the least part of the peer's requests a second. */
const ratioTargets: Readonly<Record<ComparedCall, number>> = {
  healthz: 0.25,
  me: 0.5,
  report: 0.35,
  telemetry: 0.35
}
/** Issue 10: the most times the peer's p99, in the closed loop at 64 connections and in the open loop at 400 a second. */
const latencyTarget = 3
const openLatencyTarget = 2
const judgedOpenRate = 400
/** Issue 10: the most times the peer's time to ready, and MiB. */
const readyTarget = 1.5
const idleTarget = 100
const loadedTarget = 180

const table = (columns: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const line = (cells: ReadonlyArray<string>) => `| ${cells.join(" | ")} |`
  return [line(columns), `|${columns.map(() => "---").join("|")}|`, ...rows.map(line)].join("\n")
}

const count = (value: number): string => Math.round(value).toLocaleString("en")
const percent = (value: number): string => `${Math.round(value * 100)} %`
const millis = (value: number): string => (value < 10 ? value.toFixed(1) : value.toFixed(0))
const ratio = (value: number): string => value.toFixed(2)
const verdict = (isMet: boolean): string => (isMet ? "met" : "**missed**")

const judged = (value: number, text: string, target: number, kind: "least" | "most"): string =>
  kind === "least"
    ? `${text} (≥ ${target}: ${verdict(value >= target)})`
    : `${text} (≤ ${target}: ${verdict(value <= target)})`

export const operationsTable = (counts: ReadonlyMap<string, number>, committed: OperationCounts): string =>
  table(
    ["call", "operations", "committed", "bound", "", "half of the bound"],
    countedCalls.map((call) => {
      const operations = counts.get(call) ?? Number.NaN
      const bound = operationBounds[call]
      return [
        call,
        count(operations),
        count(committed[call]),
        ...(bound === undefined
          ? ["", "", ""]
          : [count(bound), verdict(operations <= bound), verdict(operations <= bound / 2)])
      ]
    })
  )

const rateRow =
  (ratios: Ratios, connections: number) =>
  (call: ComparedCall): ReadonlyArray<string> => {
    const ours = ratios.sampleOf("ours", call, connections)
    const peer = ratios.sampleOf("peer", call, connections)
    const raw = ratios.sampleOf("raw", call, connections)
    const shares = (sample: Sample | undefined) =>
      sample === undefined ? "" : `${percent(sample.serverShare)} / ${percent(sample.loadShare)}`
    const part = (ours?.perSecond ?? Number.NaN) / (peer?.perSecond ?? Number.NaN)
    return [
      call,
      String(connections),
      ...[ours, peer, raw].map((sample) => (sample === undefined ? "" : count(sample.perSecond))),
      connections === manyConnections ? judged(part, ratio(part), ratioTargets[call], "least") : ratio(part),
      ratio((peer?.cpuMicros ?? Number.NaN) / (ours?.cpuMicros ?? Number.NaN)),
      ...[ours, peer].map((sample) => (sample === undefined ? "" : count(sample.cpuMicros))),
      shares(ours),
      shares(peer),
      String((ours?.failed ?? 0) + (peer?.failed ?? 0))
    ]
  }

export const ratesTable = (ratios: Ratios): string =>
  table(
    [
      "call",
      "connections",
      "requests/s",
      "peer",
      "`node:http`",
      "ratio to the peer",
      "ratio by CPU",
      "CPU µs/request",
      "peer",
      "server / load CPU",
      "peer",
      "failed"
    ],
    connectionCounts.flatMap((connections) => comparedCalls.map(rateRow(ratios, connections)))
  )

export const latencyTable = (ratios: Ratios): string =>
  table(
    ["call", "connections", "p50 ms", "peer", "ratio", "p99 ms", "peer", "ratio"],
    connectionCounts.flatMap((connections) =>
      comparedCalls.map((call) => {
        const ours = ratios.sampleOf("ours", call, connections)
        const peer = ratios.sampleOf("peer", call, connections)
        const cells = (["p50", "p99"] as const).flatMap((part) => {
          const own = ours?.[part] ?? Number.NaN
          const other = peer?.[part] ?? Number.NaN
          const times = own / other
          return [
            millis(own),
            millis(other),
            part === "p99" && connections === manyConnections
              ? judged(times, ratio(times), latencyTarget, "most")
              : ratio(times)
          ]
        })
        return [call, String(connections), ...cells]
      })
    )
  )

export const loadedTable = (ratios: Ratios): string => {
  const loaded = ratios.loadedOf("ours")
  return table(
    ["peak resident memory, MiB", "peer"],
    [[judged(loaded, count(loaded), loadedTarget, "most"), count(ratios.loadedOf("peer"))]]
  )
}

export const openLoopTable = (loops: OpenLoops): string =>
  table(
    ["requests/s", "p50 ms", "peer", "p99 ms", "peer", "ratio", "p99.9 ms", "peer", "ratio", "failed"],
    openRates.map((perSecond) => {
      const ours = loops("ours", perSecond)
      const peer = loops("peer", perSecond)
      const times = ours.p99 / peer.p99
      return [
        String(perSecond),
        millis(ours.p50),
        millis(peer.p50),
        millis(ours.p99),
        millis(peer.p99),
        perSecond === judgedOpenRate ? judged(times, ratio(times), openLatencyTarget, "most") : ratio(times),
        millis(ours.p999),
        millis(peer.p999),
        ratio(ours.p999 / peer.p999),
        String(ours.failed + peer.failed)
      ]
    })
  )

export const startTable = (ours: StartSample, peer: StartSample): string => {
  const times = ours.readyMillis / peer.readyMillis
  return table(
    ["", "this service", "peer", "target"],
    [
      [
        "spawn to ready, ms",
        count(ours.readyMillis),
        count(peer.readyMillis),
        judged(times, `${ratio(times)} times`, readyTarget, "most")
      ],
      [
        "idle resident memory, MiB",
        count(ours.idle),
        count(peer.idle),
        judged(ours.idle, count(ours.idle), idleTarget, "most")
      ]
    ]
  )
}
