/** From the spawn of a server to its first 200 of /readyz, and its memory before the first request. */
import { setTimeout as pause } from "node:timers/promises"
import type { SimulatedUpstreams } from "../sandbox/SimulatedUpstreams.ts"
import { median } from "./Median.ts"
import { type Programs, type ServerName, startServer } from "./Servers.ts"

export interface StartSample {
  readonly readyMillis: number
  /** MiB. */
  readonly idle: number
}

const settleMillis = 1_000

/** Medians. The first start, which fills the page cache, does not count. */
export const measureStart = async (
  programs: Programs,
  name: ServerName,
  world: SimulatedUpstreams,
  starts: number
): Promise<StartSample> => {
  const samples: Array<StartSample> = []
  for (let start = 0; start <= starts; start += 1) {
    const server = await startServer(programs, name, world)
    await pause(settleMillis)
    if (start > 0) samples.push({ readyMillis: server.readyMillis, idle: server.memory().now })
    await server.stop()
  }
  return {
    readyMillis: median(samples.map(({ readyMillis }) => readyMillis)),
    idle: median(samples.map(({ idle }) => idle))
  }
}
