/** The tables that the benchmark prints and writes into docs/performance.md. */
import { countedCalls, type OperationCounts, operationBounds } from "./Operations.ts"
import {
  comparedCalls,
  type ComparedCall,
  connectionCounts,
  manyConnections,
  type Ratios,
  type Sample
} from "./Ratios.ts"

/** Issue 10: the least part of the peer's requests a second. */
const ratioTargets: Readonly<Record<ComparedCall, number>> = {
  healthz: 0.25,
  me: 0.5,
  report: 0.35,
  telemetry: 0.35
}
/** Issue 10: the most times the peer's p99 at 64 connections. */
const latencyTarget = 3

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
