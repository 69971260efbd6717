/**
 * The attacks on identity and content, in a process of their own: they compute much, and this one holds the upstreams on which the
 * honest probes wait. `npx tsx test/proof/attacks/Identity.ts <seed> <count>` plays them alone.
 */
import { fork } from "node:child_process"
import { once } from "node:events"
import { fileURLToPath } from "node:url"
import { seeded } from "../../durability/Random.ts"
import { root } from "../../support/Process.ts"
import type { ApartAttack } from "./ApartAttack.ts"
import type { Attack } from "./Attack.ts"
import { keyAttack } from "./Keys.ts"
import { planeAttack } from "./Planes.ts"
import { reportAttack } from "./Reports.ts"
import { shownAttack } from "./Shown.ts"
import { webhookAttack } from "./Webhooks.ts"

const attacks: ReadonlyArray<ApartAttack> = [webhookAttack, keyAttack, planeAttack, reportAttack, shownAttack]

const file = fileURLToPath(import.meta.url)

export const identityAttacks: ReadonlyArray<Attack> = [
  {
    name: "identity and content",
    apart: true,
    play: async ({ count, random }) => {
      const seed = random.below(1_000_000)
      const child = fork(file, [String(seed), String(count)], {
        cwd: root,
        silent: true,
        execArgv: ["--import", "tsx"]
      })
      let text = ""
      for (const stream of [child.stdout, child.stderr])
        stream?.setEncoding("utf8").on("data", (part: string) => {
          text += part
        })
      const [code] = await once(child, "close")
      const broken = text.split("\n").filter((line) => line.startsWith("BROKEN "))
      return code === 0 || broken.length > 0
        ? broken
        : [`the process ended with ${code}: ${text.slice(-2_000)}`]
    }
  }
]

if (process.argv[1] === file) {
  const [seed = 1, count = 200] = process.argv.slice(2).map(Number)
  const broken: Array<string> = []
  for (const [at, attack] of attacks.entries())
    for (const fault of await attack.play(seeded(seed + at).below(1_000_000), count))
      broken.push(`BROKEN ${attack.name}, seed ${seed}: ${fault.replaceAll("\n", " ")}`)
  process.stdout.write(`${broken.join("\n")}\n`, () => process.exit(broken.length === 0 ? 0 : 1))
}
