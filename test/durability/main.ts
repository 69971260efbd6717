/**
 * `npm run durability -- --seeds 1,2 --seconds 60`: plays for each seed every crash point on both databases, and a storm of so many
 * seconds over three instances on one PostgreSQL. Prints the figures and what broke, and exits with 0 when every promise held, else with 1.
 * With `--holders` the storm kills only instances that hold a lease, while upstreams are slow.
 */
import { parseArgs } from "node:util"
import { playSeeds } from "./Runs.ts"

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "1" },
    seconds: { type: "string", default: "60" },
    holders: { type: "boolean", default: false },
    verbose: { type: "boolean", default: false }
  }
})
const print = (line: string) => process.stdout.write(`${line}\n`)

// Instances end with their parent; folders and PostgreSQL are removed on exit.
process.once("SIGINT", () => process.exit(130))
process.once("SIGTERM", () => process.exit(143))

const verdicts = await playSeeds({
  seeds: values.seeds.split(",").map(Number),
  seconds: Number(values.seconds),
  holders: values.holders,
  log: values.verbose ? print : () => undefined
})
for (const { broken, figures } of verdicts) {
  print(JSON.stringify(figures))
  for (const law of broken) print(`BROKEN ${law}`)
}
const held = verdicts.every(({ broken }) => broken.length === 0)
print(held ? "every promise held" : "promises were broken")
process.exit(held ? 0 : 1)
