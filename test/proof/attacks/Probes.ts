/** The honest client: as long as an attack runs, it asks for the liveness and for its own session, each on a new connection. */
import { setTimeout as pause } from "node:timers/promises"
import type { Session } from "./Attack.ts"
import type { AttackedServer } from "./AttackedServer.ts"
import { ask } from "./Wire.ts"

/** A loopback address that no attack uses. */
export const honestAddress = "127.0.0.200"

/** Milliseconds between two rounds, and for one answer: bounds a hang, not the speed of the machine. */
const between = 200
const patience = 60_000

export interface Probes {
  /** Ends the probing: what was not answered. */
  readonly end: () => Promise<ReadonlyArray<string>>
  readonly count: () => number
  /** Milliseconds of the slowest one. */
  readonly slowest: () => number
}

export const startProbes = (server: AttackedServer, session: Session): Probes => {
  const broken: Array<string> = []
  let ending = false
  let count = 0
  let slowest = 0
  const requests = [
    { path: "/healthz" },
    {
      path: "/api/v1/auth/me",
      headers: { Authorization: `Bearer ${session.accessToken}`, "X-Org-ID": session.organisation }
    }
  ]
  const probe = async (request: (typeof requests)[number]) => {
    const began = performance.now()
    let answer = await ask(server, { ...request, from: honestAddress, patience })
    // Under load a part of the requests is refused for a second, and an honest client repeats them; probes are never refused.
    while (
      request.headers !== undefined &&
      answer?.status === 503 &&
      answer.body.includes('"overloaded"') &&
      performance.now() - began < patience
    ) {
      await pause(1_000)
      answer = await ask(server, { ...request, from: honestAddress, patience })
    }
    const took = Math.round(performance.now() - began)
    count += 1
    slowest = Math.max(slowest, took)
    if (answer?.status !== 200)
      broken.push(
        `an honest GET ${request.path} got ${answer === undefined ? "no answer" : `${answer.status} ${answer.body}`} after ${took} ms`
      )
  }
  const probing = (async () => {
    while (!ending) {
      await Promise.all(requests.map(probe))
      await pause(between)
    }
  })()
  return {
    end: async () => {
      ending = true
      await probing
      return broken.length <= 3 ? broken : [...broken.slice(0, 3), `and ${broken.length - 3} more probes`]
    },
    count: () => count,
    slowest: () => slowest
  }
}
