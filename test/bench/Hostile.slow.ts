/**
 * What a body costs follows from its bytes, whatever it holds: the processor time of the dearest known bodies in relation to plain ones
 * of the same size. Both times are of this process, server and client together, so that a slow or busy machine changes their ratio little.
 */
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import { Effect } from "effect"
import { hostileKinds } from "../../bench/HostileBodies.ts"
import type { Outgoing } from "../../bench/Requests.ts"
import { newPath } from "../layers/store/Stores.ts"
import { cpuMillisDuring } from "../world/CpuTime.ts"
import { startServer } from "../world/Sandbox.ts"

const requests = 3
/** A busy moment is no cost of a body: what two rounds accuse, two more may clear. */
const rounds = { least: 2, most: 4 }
/** Rounds that are tried for these. */
const attempts = 40

describe("A hostile body costs little more than a plain one of its size", () => {
  for (const { name, prepare, ratio, request, spread, status } of hostileKinds)
    it.scopedLive(name, function* () {
      const settings = { databasePath: yield* newPath, trustedProxies: ["127.0.0.1"] }
      const { base } = yield* startServer(settings)
      const send = ({ path, ...sent }: Outgoing) =>
        Effect.promise(async () => {
          const response = await fetch(base + path, sent)
          await response.arrayBuffer()
          return response.status
        })
      let addresses = 0
      const addressOf = (plain: boolean): string => {
        addresses += 1
        return spread ? `198.51.100.${addresses}` : plain ? "192.0.2.1" : "192.0.2.2"
      }
      /** The least processor time of a few requests, of several rounds. */
      const costs = { plain: Number.POSITIVE_INFINITY, hostile: Number.POSITIVE_INFINITY }
      let measured = 0
      const isDone = () =>
        measured === rounds.most || (measured >= rounds.least && costs.hostile < ratio * costs.plain)
      for (let attempt = 0; !isDone() && attempt < attempts; attempt += 1) {
        const round = { plain: 0, hostile: 0 }
        const statuses: Array<number> = []
        for (const kind of ["plain", "hostile"] as const) {
          const plain = kind === "plain"
          yield* Effect.forEach(prepare(addressOf(plain), plain), send)
          const outgoing = Array.from({ length: requests }, () => request(addressOf(plain), plain))
          const { answers, millis } = yield* cpuMillisDuring(Effect.forEach(outgoing, send))
          round[kind] = millis / requests
          statuses.push(...answers)
        }
        // On a slow machine a quota is refilled meanwhile.
        if (statuses.some((answered) => answered !== status)) continue
        measured += 1
        costs.plain = Math.min(costs.plain, round.plain)
        costs.hostile = Math.min(costs.hostile, round.hostile)
      }
      expect(measured).toBeGreaterThanOrEqual(rounds.least)
      expect(
        costs.hostile / costs.plain,
        `${costs.hostile.toFixed(1)} ms, and ${costs.plain.toFixed(1)} ms of a plain body`
      ).toBeLessThan(ratio)
    })
})
