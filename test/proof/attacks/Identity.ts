/** The attacks on identity and content, one after the other on one bench. They need no process: two instances in memory. */
import { findCredentials, type IdentityAttack, withBench } from "./Bench.ts"
import { keyAttack } from "./Keys.ts"
import { planeAttack } from "./Planes.ts"
import { reportAttack } from "./Reports.ts"
import { shownAttack } from "./Shown.ts"
import { webhookAttack } from "./Webhooks.ts"

/** In this order: one environment must not be known to the first, the third ends environments, and the last moves the clock by days. */
const attacks: ReadonlyArray<IdentityAttack> = [
  webhookAttack,
  shownAttack,
  planeAttack,
  reportAttack,
  keyAttack
]

export const playIdentity = (
  seed: number,
  count: number,
  chosen: (name: string) => boolean = () => true
): Promise<ReadonlyArray<string>> =>
  withBench(async (bench) => {
    const broken: Array<string> = []
    for (const { name, play } of attacks.filter((attack) => chosen(attack.name))) {
      const found = [...(await play(bench, seed, count)), ...(await findCredentials(bench))]
      broken.push(...found.map((fault) => `${name}, seed ${seed}: ${fault}`))
    }
    return broken
  })
