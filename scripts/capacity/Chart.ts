/** The use of each limit by the number of users, as an SVG that follows the reader's light or dark scheme. */
import { limits, usual } from "./Model.ts"

const size = { width: 860, height: 500 }
const frame = { left: 64, right: 196, top: 36, bottom: 52 }
const users = { from: 100, to: 1_000_000 }
const use = { from: 0.001, to: 10 }

const plot = {
  right: size.width - frame.right,
  bottom: size.height - frame.bottom
}
const part = (value: number, { from, to }: typeof users) => Math.log(value / from) / Math.log(to / from)
const x = (value: number) => frame.left + part(value, users) * (plot.right - frame.left)
const y = (value: number) => plot.bottom - part(value, use) * (plot.bottom - frame.top)

const number = (value: number) => value.toFixed(1)
const powers = (from: number, to: number) =>
  Array.from({ length: Math.round(Math.log10(to / from)) + 1 }, (_, index) => from * 10 ** index)
const percent = (value: number) => `${Number((value * 100).toPrecision(3)).toLocaleString("en")} %`

/** Distinguishable without colour: each line has its name at its end. */
const colours: ReadonlyArray<string> = [
  "#d1495b",
  "#e07a1f",
  "#b8860b",
  "#3a7d44",
  "#2a9d8f",
  "#3d78c9",
  "#7b5ea7",
  "#a8508e",
  "#7a7f87"
]

const style = `
  text { font: 12px system-ui, sans-serif; fill: #24292f }
  .title { font-weight: 600; font-size: 14px }
  .grid { stroke: #d0d7de; stroke-width: 1 }
  .bound { stroke: #24292f; stroke-width: 1.5; stroke-dasharray: 5 4 }
  .line { fill: none; stroke-width: 2.5 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .grid { stroke: #3d444d }
    .bound { stroke: #e6edf3 }
  }`

/** Names at the right edge, moved apart where lines end close together. */
const labels = (
  ends: ReadonlyArray<{ readonly name: string; readonly at: number; readonly colour: string }>
) => {
  const lowest = plot.bottom + 4
  const sorted = [...ends].sort((one, other) => one.at - other.at)
  let last = frame.top - 18
  return sorted.map(({ at, colour, name }) => {
    last = Math.min(lowest, Math.max(at, last + 16))
    return `<circle cx="${plot.right + 12}" cy="${number(last)}" r="4" fill="${colour}"/><text x="${plot.right + 22}" y="${number(last + 4)}">${name}</text>`
  })
}

export const chart = (): string => {
  const lines = [...limits]
    .sort((one, other) => one.users(usual) - other.users(usual))
    .map((limit, index) => {
      const bound = limit.users(usual)
      const start = Math.max(users.from, use.from * bound)
      const end = Math.min(users.to, use.to * bound)
      return { name: limit.name, bound, start, end, colour: colours[index % colours.length] ?? "#888888" }
    })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size.width} ${size.height}" role="img" aria-labelledby="title">
<title id="title">Use of each limit by the number of users; a limit binds at 100 %</title>
<style>${style}
</style>
<text class="title" x="${frame.left}" y="20">Use of each limit in the busiest hour, as installed</text>
${powers(users.from, users.to)
  .map(
    (value) =>
      `<line class="grid" x1="${number(x(value))}" y1="${frame.top}" x2="${number(x(value))}" y2="${plot.bottom}"/><text x="${number(x(value))}" y="${plot.bottom + 18}" text-anchor="middle">${value.toLocaleString("en")}</text>`
  )
  .join("\n")}
${powers(use.from, use.to)
  .map(
    (value) =>
      `<line class="${value === 1 ? "bound" : "grid"}" x1="${frame.left}" y1="${number(y(value))}" x2="${plot.right}" y2="${number(y(value))}"/><text x="${frame.left - 8}" y="${number(y(value) + 4)}" text-anchor="end">${percent(value)}</text>`
  )
  .join("\n")}
<text x="${number((frame.left + plot.right) / 2)}" y="${size.height - 12}" text-anchor="middle">users</text>
${lines
  .filter(({ end, start }) => end > start)
  .map(
    ({ bound, colour, end, start }) =>
      `<path class="line" stroke="${colour}" d="M${number(x(start))} ${number(y(start / bound))}L${number(x(end))} ${number(y(end / bound))}"/>${
        bound <= users.to
          ? `<circle cx="${number(x(bound))}" cy="${number(y(1))}" r="4.5" fill="${colour}"/>`
          : ""
      }`
  )
  .join("\n")}
${labels(lines.map(({ bound, colour, name }) => ({ name, colour, at: y(Math.min(use.to, Math.max(use.from, users.to / bound))) }))).join("\n")}
</svg>
`
}
