/** A reader of Prometheus' text format. */
import { readFileSync } from "node:fs"
import { Effect } from "effect"

export interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

const line = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/
const label = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g

export const parse = (text: string): ReadonlyArray<Sample> =>
  text
    .split("\n")
    .filter((row) => row !== "" && !row.startsWith("#"))
    .map((row) => {
      const [, name = "", labels = "", value = ""] = line.exec(row) ?? []
      if (name === "") throw new Error(`not a sample: ${row}`)
      return {
        name,
        labels: Object.fromEntries([...labels.matchAll(label)].map(([, key = "", text = ""]) => [key, text])),
        value: Number(value.replace("+Inf", "Infinity"))
      }
    })

export const scrape = (admin: string): Effect.Effect<string> =>
  Effect.promise(async () => (await fetch(`${admin}/metrics`)).text())

/** The sum over all series with these labels. */
export const sum = (
  samples: ReadonlyArray<Sample>,
  name: string,
  labels: Readonly<Record<string, string>> = {}
): number =>
  samples
    .filter((sample) => sample.name === name)
    .filter((sample) => Object.entries(labels).every(([key, value]) => sample.labels[key] === value))
    .reduce((total, { value }) => total + value, 0)

const seriesOf = ({ labels, name }: Sample): string => JSON.stringify([name, Object.entries(labels).sort()])

/** The increase of counters since `before`: metrics belong to the process, and other tests may have counted too. Gauges keep their value. */
export const since = (
  before: ReadonlyArray<Sample>,
  samples: ReadonlyArray<Sample>
): ReadonlyArray<Sample> => {
  const counted = new Map(
    before
      .filter(({ name }) => /_(?:total|count|sum|bucket)$/.test(name))
      .map((sample) => [seriesOf(sample), sample.value])
  )
  return samples.flatMap((sample) => {
    const earlier = counted.get(seriesOf(sample))
    if (earlier === undefined) return [sample]
    return sample.value === earlier ? [] : [{ ...sample, value: sample.value - earlier }]
  })
}

/** The labels of each metric in docs/observability.md. */
export const documented: ReadonlyMap<string, ReadonlyArray<string>> = new Map(
  [
    ...readFileSync(new URL("../../docs/observability.md", import.meta.url), "utf8").matchAll(
      /^\| `((?:music|process|nodejs)_\w+)` \| ([^|]*)\|/gm
    )
  ].map(([, name = "", labels = ""]) => [
    name,
    [...labels.matchAll(/`(\w+)`/g)].map(([, label = ""]) => label)
  ])
)

/** The metric of a series: those of a histogram have suffixes. */
export const metricOf = (series: string): string =>
  documented.has(series) ? series : series.replace(/_(?:bucket|count|sum)$/, "")
