import * as Metric from "effect/Metric"
import * as MetricState from "effect/MetricState"
import { type MetricDescription, metrics } from "../../services/Metrics.ts"
import type { Sample } from "./Collectors.ts"

export interface Series {
  readonly labels: Readonly<Record<string, string>>
  readonly value: number | MetricState.MetricState.Histogram
}

/** One metric with all its series. */
export interface MetricFamily {
  readonly metric: MetricDescription
  readonly series: ReadonlyArray<Series>
}

const valueOf = (state: MetricState.MetricState.Untyped): Series["value"] | undefined =>
  MetricState.isHistogramState(state)
    ? state
    : MetricState.isCounterState(state)
      ? Number(state.count)
      : MetricState.isGaugeState(state)
        ? Number(state.value)
        : undefined

/** The counted metrics of this process and the collected ones, in the order of the catalogue. Metrics of Effect itself are left out. */
export const metricFamilies = (collected: ReadonlyArray<Sample>): ReadonlyArray<MetricFamily> => {
  const families = new Map<string, MetricFamily & { readonly series: Array<Series> }>()
  for (const metric of metrics) families.set(metric.name, { metric, series: [] })
  for (const { metricKey, metricState } of Metric.unsafeSnapshot()) {
    const value = valueOf(metricState)
    if (value === undefined) continue
    const labels = Object.fromEntries(metricKey.tags.map(({ key, value: label }) => [key, label]))
    families.get(metricKey.name)?.series.push({ labels, value })
  }
  for (const { labels, metric, value } of collected) families.get(metric.name)?.series.push({ labels, value })
  return [...families.values()].filter(({ series }) => series.length > 0)
}
