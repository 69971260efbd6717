/**
 * `npm run durability -- --seeds 1,2 --seconds 60`: plays for each seed every crash point on both databases, and a storm of so many
 * seconds over three instances on one PostgreSQL. Prints a table and exits with 0 when every promise held, else with 1.
 * `--outages` plays instead the failures of a PostgreSQL under two instances (docs/postgresql.md, "Recovery times").
 * With `--holders` the storm kills only instances that hold a lease, while upstreams are slow.
 * `--record <file>` adds the rows to a Markdown file, before the line `<!-- end of runs -->`.
 */
import { readFileSync, writeFileSync } from "node:fs"
import { parseArgs } from "node:util"
import { startPostgres } from "../support/Postgres.ts"
import { type Outcome, playChain } from "./Chain.ts"
import { postgresDatabase, sqliteDatabase, type TestDatabase } from "./Databases.ts"
import { type OutagesOutcome, playOutages } from "./Outages.ts"
import { splitRandomly, migrating, running } from "./Points.ts"
import { prepareInstance } from "./Prepared.ts"
import { seeded } from "./Random.ts"
import { playStorm, type StormOutcome } from "./Storm.ts"

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "1" },
    seconds: { type: "string", default: "60" },
    record: { type: "string" },
    verbose: { type: "boolean", default: false },
    "skip-crashes": { type: "boolean", default: false },
    holders: { type: "boolean", default: false },
    outages: { type: "boolean", default: false }
  }
})
const seeds = values.seeds.split(",").map(Number)
const seconds = Number(values.seconds)
/** Concurrent chains on each database. */
const hands = 4
const print = (line: string) => process.stdout.write(`${line}\n`)
const detail = values.verbose ? print : () => undefined

const header = [
  "| seed | places | crashes | sent | acknowledged | reports | events | webhooks | tings | sessions | duplicates | kills | recoveries | slowest recovery | |",
  "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
]

interface Result {
  readonly row: string
  readonly broken: ReadonlyArray<string>
}

const playCrashes = async (
  instanceFile: string,
  server: string,
  seed: number
): Promise<ReadonlyArray<Outcome>> => {
  const open = [sqliteDatabase, () => postgresDatabase(server)]
  const chains = open.flatMap((database, index) =>
    // A different order on each database.
    splitRandomly(running, seeded(seed + index * 1_000), hands).map((hand, at) => ({
      database,
      points: at === 0 ? [...migrating, ...hand] : hand
    }))
  )
  return Promise.all(
    chains.map(async ({ database, points }) => {
      const opened: TestDatabase = await database()
      try {
        return await playChain({ instanceFile, database: opened, points, seed, modest: true, log: detail })
      } finally {
        await opened.remove()
      }
    })
  )
}

const rowOf = (
  seed: number,
  crashes: ReadonlyArray<Outcome>,
  { figures, storm }: StormOutcome,
  held: boolean
) =>
  `| ${[
    seed,
    crashes.length === 0 ? 0 : running.length + migrating.length,
    crashes.reduce((sum, outcome) => sum + outcome.crashes, 0),
    storm.sent,
    storm.acknowledged,
    figures.reports,
    figures.events,
    figures.webhooks,
    figures.tings,
    figures.sessions,
    crashes.reduce((sum, outcome) => sum + outcome.figures.duplicates, figures.duplicates),
    storm.kills,
    storm.recoveries,
    `${(storm.slowestRecovery / 1000).toFixed(1)} s`,
    held ? "held" : "**broken**"
  ].join(" | ")} |`

const play = async (instanceFile: string, server: string, seed: number): Promise<Result> => {
  const database = await postgresDatabase(server)
  try {
    // Concurrent, to save time. Instances of the chains run at low priority, because the storm is timed.
    const [crashes, storm] = await Promise.all([
      values["skip-crashes"] ? [] : playCrashes(instanceFile, server, seed),
      playStorm({ instanceFile, database, seed, seconds, holders: values.holders, log: detail })
    ])
    detail(`crashes: ${crashes.map(({ took }) => `${(took / 1000).toFixed(0)} s`).join(", ")}`)
    detail(JSON.stringify(storm.storm))
    const broken = [
      ...crashes.flatMap((outcome) => outcome.broken.map((law) => `${law} [${outcome.where}]`)),
      ...storm.broken.map((law) => `${law} [storm, seed ${seed}]`)
    ]
    return { row: rowOf(seed, crashes, storm, broken.length === 0), broken }
  } finally {
    await database.remove()
  }
}

const inSeconds = (millis: number): string => `${(millis / 1_000).toFixed(1)} s`

/** The table of docs/postgresql.md. */
const printOutages = ({ acknowledged, broken, rows, sent }: OutagesOutcome): void => {
  for (const law of broken) print(`BROKEN ${law}`)
  const kinds = Object.keys(rows[0]?.recovery ?? {})
  print(`| PostgreSQL, or an instance | ${kinds.join(" | ")} |`)
  print(`|---|${kinds.map(() => "---|").join("")}`)
  for (const { outage, recovery } of rows)
    print(`| ${outage} | ${kinds.map((kind) => inSeconds(recovery[kind] ?? Number.NaN)).join(" | ")} |`)
  print(
    `${sent} sent, ${acknowledged} acknowledged; ${broken.length === 0 ? "every promise held" : "broken"}`
  )
}

const record = (file: string, rows: ReadonlyArray<string>): void => {
  const end = "<!-- end of runs -->"
  const page = readFileSync(file, "utf8")
  if (!page.includes(end)) throw new Error(`${file} has no line ${end}`)
  writeFileSync(file, page.replace(end, [...rows, end].join("\n")))
}

// Instances end with their parent; folders and PostgreSQL are removed on exit.
process.once("SIGINT", () => process.exit(130))
process.once("SIGTERM", () => process.exit(143))

const began = performance.now()
let status = 1
const instance = await prepareInstance()
if (values.outages) {
  let held = true
  try {
    for (const seed of seeds) {
      const outcome = await playOutages({ instanceFile: instance.file, seed, log: detail })
      printOutages(outcome)
      held &&= outcome.broken.length === 0
    }
  } finally {
    instance.remove()
  }
  process.exit(held ? 0 : 1)
}
const server = await startPostgres()
try {
  const results: Array<Result> = []
  for (const seed of seeds) results.push(await play(instance.file, server.url, seed))
  const broken = results.flatMap((result) => result.broken)
  for (const law of broken) print(`BROKEN ${law}`)
  for (const line of [...header, ...results.map(({ row }) => row)]) print(line)
  print(
    `${broken.length === 0 ? "every promise held" : `${broken.length} promises broken`}, ${((performance.now() - began) / 1000).toFixed(0)} s`
  )
  if (values.record !== undefined)
    record(
      values.record,
      results.map(({ row }) => row)
    )
  status = broken.length === 0 ? 0 : 1
} finally {
  await server.stop()
  instance.remove()
}
process.exit(status)
