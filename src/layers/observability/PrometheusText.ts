/** The text format of Prometheus, version 0.0.4. */
import type { MetricFamily, Series } from "./MetricFamilies.ts"

export const contentType = "text/plain; version=0.0.4; charset=utf-8"

const escape = (text: string): string => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")

const numberText = (value: number): string => String(value).replace("Infinity", "+Inf")

const line = (name: string, labels: Series["labels"], value: number): string => {
  const pairs = Object.entries(labels).map(
    ([key, label]) => `${key}="${escape(label).replaceAll('"', '\\"')}"`
  )
  return `${name}${pairs.length === 0 ? "" : `{${pairs.join()}}`} ${numberText(value)}`
}

const linesOf = (name: string, { labels, value }: Series): ReadonlyArray<string> =>
  typeof value === "number"
    ? [line(name, labels, value)]
    : [
        ...value.buckets.map(([bound, count]) =>
          line(`${name}_bucket`, { ...labels, le: numberText(bound) }, count)
        ),
        line(`${name}_sum`, labels, value.sum),
        line(`${name}_count`, labels, value.count)
      ]

export const prometheusText = (families: ReadonlyArray<MetricFamily>): string =>
  families
    .flatMap(({ metric: { help, kind, name }, series }) => [
      `# HELP ${name} ${escape(help)}`,
      `# TYPE ${name} ${kind}`,
      ...series.flatMap((one) => linesOf(name, one))
    ])
    .map((text) => `${text}\n`)
    .join("")
