/** The dashboard, the alerts and the documentation name existing metrics, and all of them. */
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { describe, expect, it } from "vitest"
import { metrics } from "../../src/services/Metrics.ts"

const text = (name: string) => readFileSync(fileURLToPath(new URL(`../../${name}`, import.meta.url)), "utf8")

interface Panel {
  readonly type: string
  readonly title: string
  readonly targets?: ReadonlyArray<{ readonly expr: string; readonly legendFormat: string }>
}
interface Dashboard {
  readonly uid: string
  readonly panels: ReadonlyArray<Panel>
  readonly templating: { readonly list: ReadonlyArray<{ readonly name: string; readonly type: string }> }
}

const dashboard: Dashboard = JSON.parse(text("ops/grafana-dashboard.json"))
const panels = dashboard.panels.filter(({ type }) => type !== "row")
const inPanels = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))

/** The expression of each rule, on the line of `expr:` or indented below it. */
const inAlerts = [...text("ops/alerts.yml").matchAll(/^ {8}expr: (?:\|\n((?: {10}.*\n)+)|(.*)\n)/gm)].map(
  ([, block, line]) => block ?? line ?? ""
)

/** Labels that Prometheus adds, and the label of a bucket. */
const added = ["job", "instance", "le"]
const histogramPart = /_(?:bucket|count|sum)$/

/** The metric of a series name in an expression. */
const metricOf = (name: string) =>
  metrics.find((metric) =>
    metric.kind === "histogram" ? name.replace(histogramPart, "") === metric.name : name === metric.name
  )

/** Every metric of an expression, with the labels of its matchers. */
const selectorsIn = (expr: string) =>
  [...expr.matchAll(/\b((?:music|process|nodejs)_[a-z0-9_]+)(?:\{([^}]*)\})?/g)].map(
    ([, name = "", matchers = ""]) => ({
      name,
      labels: [...matchers.matchAll(/([a-z_]+)\s*(?:=~|!~|!=|=)\s*"/g)].map(([, label = ""]) => label)
    })
  )

const groupingsIn = (expr: string): ReadonlyArray<string> =>
  [...expr.matchAll(/\b(?:by|on|without|ignoring)\s*\(([^)]*)\)/g)].flatMap(([, labels = ""]) =>
    labels.split(",").map((label) => label.trim())
  )

const wrongIn = (expr: string): ReadonlyArray<string> => {
  const selectors = selectorsIn(expr)
  const known = new Set([...added, ...selectors.flatMap(({ name }) => metricOf(name)?.labels ?? [])])
  return [
    ...selectors.filter(({ name }) => metricOf(name) === undefined).map(({ name }) => name),
    ...selectors.flatMap(({ labels, name }) =>
      labels
        .filter((label) => ![...added, ...(metricOf(name)?.labels ?? [])].includes(label))
        .map((label) => `${name}{${label}}`)
    ),
    ...groupingsIn(expr).filter((label) => !known.has(label)),
    ...(selectors.length === 0 ? [`no metric in ${expr}`] : []),
    ...(expr.split("(").length === expr.split(")").length ? [] : [`parentheses of ${expr}`])
  ]
}

describe("The Grafana dashboard", () => {
  it("queries existing metrics and labels, and shows every metric", () => {
    expect(inPanels.flatMap(wrongIn)).toEqual([])
    const shown = new Set(inPanels.flatMap(selectorsIn).map(({ name }) => metricOf(name)?.name))
    expect(metrics.map(({ name }) => name).filter((name) => !shown.has(name))).toEqual([])
  })
})

describe("The alert rules", () => {
  it("query existing metrics and labels", () => {
    expect(inAlerts.length).toBe(text("ops/alerts.yml").split("- alert: ").length - 1)
    expect(inAlerts.flatMap(wrongIn)).toEqual([])
  })

  it("keep the installations apart: each aggregation is one of a job", () => {
    const mixed = inAlerts.filter((expr) =>
      [...expr.matchAll(/\b(?:sum|max|min|group|count|avg)\b( by \([^)]*\))?/g)].some(
        ([, grouping = ""]) => !/\bjob\b/.test(grouping)
      )
    )
    expect(mixed).toEqual([])
  })

  it("have a runbook each: the row of the alert in the documentation", () => {
    const rules = text("ops/alerts.yml").split("- alert: ").slice(1)
    const documentation = text("docs/operations.md")
    for (const rule of rules) {
      const name = /^\w+/.exec(rule)?.[0] ?? ""
      expect(rule).toContain(`docs/operations.md#${name.toLowerCase()}"`)
      expect(documentation).toContain(`<a id="${name.toLowerCase()}"></a>\`${name}\` |`)
    }
  })

  it("are all that the documentation has rows for", () => {
    const rules = [...text("ops/alerts.yml").matchAll(/- alert: (\w+)/g)].map(([, name]) => name)
    const rows = [...text("docs/operations.md").matchAll(/^\| <a id="\w+"><\/a>`(\w+)`/gm)].map(
      ([, name]) => name
    )
    expect(rows).toEqual(expect.arrayContaining(rules))
    expect(rows.length).toBe(rules.length)
  })
})
