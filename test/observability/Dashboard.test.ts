/** The dashboard, the alerts and the documentation name existing metrics, and all of them. */
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { describe, expect, it } from "vitest"
import { metrics } from "../../src/services/Metrics.ts"
import { documented, metricOf } from "./Exposition.ts"

const text = (name: string) => readFileSync(fileURLToPath(new URL(`../../${name}`, import.meta.url)), "utf8")

interface Dashboard {
  readonly panels: ReadonlyArray<{ readonly targets?: ReadonlyArray<{ readonly expr: string }> }>
}

const dashboard: Dashboard = JSON.parse(text("ops/grafana-dashboard.json"))
const inPanels = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))

const alerts = text("ops/alerts.yml")
const names = [...alerts.matchAll(/- alert: (\w+)/g)].map(([, name = ""]) => name)
/** The expression of each rule, on the line of `expr:` or indented below it. */
const inAlerts = [...alerts.matchAll(/^ {8}expr: (?:\|\n((?: {10}.*\n)+)|(.*)\n)/gm)].map(
  ([, block, line]) => block ?? line ?? ""
)

/** Every metric of an expression, with the labels of its matchers. */
const selectorsIn = (expr: string) =>
  [...expr.matchAll(/\b((?:music|process|nodejs)_[a-z0-9_]+)(?:\{([^}]*)\})?/g)].map(
    ([, name = "", matchers = ""]) => ({
      name,
      labels: [...matchers.matchAll(/([a-z_]+)\s*(?:=~|!~|!=|=)\s*"/g)].map(([, label = ""]) => label)
    })
  )

/** Unknown metrics and labels; Prometheus adds some labels. */
const wrongIn = (expr: string): ReadonlyArray<string> => {
  const selectors = selectorsIn(expr)
  const of = (name: string) => ["job", "instance", "le", ...(documented.get(metricOf(name)) ?? [])]
  const groupings = [...expr.matchAll(/\b(?:by|on|without|ignoring)\s*\(([^)]*)\)/g)]
    .flatMap(([, labels = ""]) => labels.split(","))
    .map((label) => label.trim())
  const known = selectors.flatMap(({ name }) => of(name))
  return [
    ...selectors.filter(({ name }) => !documented.has(metricOf(name))).map(({ name }) => name),
    ...selectors.flatMap(({ labels, name }) => labels.filter((label) => !of(name).includes(label))),
    ...groupings.filter((label) => !known.includes(label)),
    ...(selectors.length === 0 ? [`no metric in ${expr}`] : [])
  ]
}

it("The documentation has every metric, and no other", () => {
  expect([...documented.keys()].sort()).toEqual(Object.keys(metrics).sort())
})

it("The Grafana dashboard queries existing metrics and labels, and shows every metric", () => {
  expect(inPanels.flatMap(wrongIn)).toEqual([])
  const shown = inPanels.flatMap(selectorsIn).map(({ name }) => metricOf(name))
  expect(Object.keys(metrics).filter((name) => !shown.includes(name))).toEqual([])
})

describe("The alert rules", () => {
  it("query existing metrics and labels, and aggregate by job: installations stay apart", () => {
    expect(inAlerts.length).toBe(names.length)
    expect(inAlerts.flatMap(wrongIn)).toEqual([])
    const aggregations = inAlerts.flatMap((expr) => [
      ...expr.matchAll(/\b(?:sum|max|min|group|count|avg)\b( by \([^)]*\))?/g)
    ])
    expect(aggregations.filter(([, grouping = ""]) => !/\bjob\b/.test(grouping))).toEqual([])
  })

  it("have a runbook each: the row of the alert in the documentation, which has no others", () => {
    for (const name of names) expect(alerts).toContain(`docs/operations.md#${name.toLowerCase()}"`)
    const rows = text("docs/operations.md").matchAll(/^\| <a id="(\w+)"><\/a>`(\w+)`/gm)
    expect([...rows].map(([, id, name]) => [id, name]).sort()).toEqual(
      names.map((name) => [name.toLowerCase(), name]).sort()
    )
  })
})
