/**
 * `npm run durability -- --seeds 1,2 --seconds 60`: plays for each seed every crash point on both databases, and a storm of so many
 * seconds over three instances on one PostgreSQL. Prints the figures and what broke, and exits with 0 when every promise held, else with 1.
 */
import { parseArgs } from "node:util"
import { playSeed } from "./Runs.ts"

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "1" },
    seconds: { type: "string", default: "60" }
  }
})
const print = (line: string) => process.stdout.write(`${line}\n`)

// Instances end with their parent; folders and PostgreSQL are removed on exit.
process.once("SIGINT", () => process.exit(130))
process.once("SIGTERM", () => process.exit(143))

let held = true
for (const seed of values.seeds.split(",").map(Number)) {
  const verdicts = await playSeed(["crashes", "storm"], { seed, seconds: Number(values.seconds) })
  for (const { broken, figures } of verdicts) {
    print(JSON.stringify(figures))
    for (const law of broken) print(`BROKEN ${law}`)
    held &&= broken.length === 0
  }
}
print(held ? "every promise held" : "promises were broken")
process.exit(held ? 0 : 1)
