/** Writes the chart and the tables of docs/limits.md from the formulas: `npm run capacity`. */
import { readFileSync, writeFileSync } from "node:fs"
import { chart } from "./capacity/Chart.ts"
import { firstToBind, limits, steps, usual } from "./capacity/Model.ts"

const page = new URL("../docs/limits.md", import.meta.url)

const rounded = (users: number): string => Number(users.toPrecision(2)).toLocaleString("en")

const limitTable = [
  "| Limit | Binds at users | What to do |",
  "|---|--:|---|",
  ...[...limits]
    .sort((one, other) => one.users(usual) - other.users(usual))
    .map(({ action, name, users }) => `| ${name} | ${rounded(users(usual))} | ${action} |`)
]

const stepTable = [
  "| Deployment | Binds first | Users |",
  "|---|---|--:|",
  ...steps.map(({ deployment, name }) => {
    const first = firstToBind(deployment)
    return `| ${name} | ${first?.limit.name ?? ""} | ${rounded(first?.users ?? 0)} |`
  })
]

const replace = (text: string, name: string, lines: ReadonlyArray<string>): string =>
  text.replace(
    new RegExp(`(<!-- ${name} -->\\n)[^]*?(<!-- end of ${name} -->)`),
    (_, begin: string, end: string) => `${begin}${lines.join("\n")}\n${end}`
  )

const before = readFileSync(page, "utf8")
writeFileSync(page, replace(replace(before, "limits", limitTable), "steps", stepTable))
writeFileSync(new URL("../docs/capacity.svg", import.meta.url), chart())
