/** `node --import tsx test/proof/model/replay.ts '<sequence as JSON>'`: plays one sequence and prints its story. */
import { playSequence } from "./Story.ts"
import { withStage } from "./Suite.ts"

const print = (line: string) => process.stdout.write(`${line}\n`)

const { broken, story } = await withStage((folder) => playSequence(JSON.parse(process.argv[2] ?? ""), folder))
for (const line of story) print(line)
for (const problem of broken) print(`BROKEN ${problem}`)
print(broken.length === 0 ? "held" : "broken")
process.exit(broken.length === 0 ? 0 : 1)
