/** The tables that the benchmark prints. */
import { comparedCalls, type ComparedCall, type Medians } from "./ClosedLoop.ts"
import { countedCalls, operationBounds, operationsBefore } from "./Operations.ts"
import { openRate, type OpenLoops } from "./OpenLoop.ts"

/** The least part of the throughput before, and of the bare server's at probes. */
const leastOfBefore = 0.4
const leastOfBare = 0.5
/** The most times the p99 before, in the open loop. */
const mostOfP99 = 2

const table = (columns: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const line = (cells: ReadonlyArray<string>) => `| ${cells.join(" | ")} |`
  return [line(columns), `|${columns.map(() => "---").join("|")}|`, ...rows.map(line)].join("\n")
}

const count = (value: number): string => (Number.isNaN(value) ? "" : Math.round(value).toLocaleString("en"))
const millis = (value: number): string => (value < 10 ? value.toFixed(1) : value.toFixed(0))
const judge = (isMet: boolean): string => (isMet ? "met" : "**missed**")
const atLeast = (value: number, bound: number): string =>
  Number.isNaN(value) ? "" : `${value.toFixed(2)} (≥ ${bound}: ${judge(value >= bound)})`

const atMost = (value: number, bound: number): string =>
  `${value.toFixed(2)} (≤ ${bound}: ${judge(value <= bound)})`

export const operationsTable = (counts: ReadonlyMap<string, number>): string =>
  table(
    ["call", "operations", "before", "bound", ""],
    countedCalls.map((call) => {
      const operations = counts.get(call) ?? Number.NaN
      const bound = operationBounds[call]
      const judged = bound === undefined ? ["", ""] : [count(bound), judge(operations <= bound)]
      return [call, count(operations), count(operationsBefore[call]), ...judged]
    })
  )

const rateRow = (medians: Medians) => (call: ComparedCall) => {
  const [now, before, bare] = (["now", "before", "bare"] as const).map((server) =>
    medians(server, call, "perSecond")
  ) as [number, number, number]
  return [
    call,
    count(now),
    count(before),
    atLeast(now / before, leastOfBefore),
    count(bare),
    atLeast(now / bare, leastOfBare),
    ...(["cpuMicros", "p99"] as const).flatMap((quantity) =>
      (["now", "before"] as const).map((server) => millis(medians(server, call, quantity)))
    ),
    count(medians("now", call, "failed") + medians("before", call, "failed"))
  ]
}

export const ratesTable = (medians: Medians): string =>
  table(
    [
      "call",
      "requests/s",
      "before",
      "ratio",
      "bare",
      "ratio",
      "CPU µs",
      "before",
      "p99 ms",
      "before",
      "failed"
    ],
    comparedCalls.map(rateRow(medians))
  )

export const openLoopTable = (loops: OpenLoops): string => {
  const [now, before] = [loops("now"), loops("before")]
  return table(
    ["requests/s", "p50 ms", "before", "p99 ms", "before", "ratio", "failed"],
    [
      [
        String(openRate),
        ...[now.p50, before.p50, now.p99, before.p99].map(millis),
        atMost(now.p99 / before.p99, mostOfP99),
        String(now.failed + before.failed)
      ]
    ]
  )
}
