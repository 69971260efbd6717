/** Sends calls to a simulated upstream in memory: no socket, no waiting. */
import type { InMemoryIam } from "../../sandbox/upstreams/Iam.ts"
import type { Now } from "../../sandbox/upstreams/Simulator.ts"
import type { Send } from "../../src/layers/upstream/UpstreamTransport.ts"
import { answered, seenAt } from "./InMemory.ts"

export { seenAt }

export const sendInMemory =
  (now: Now, { decorate, handle }: Pick<InMemoryIam, "handle" | "decorate">): Send =>
  (request, settle) => {
    const seen = seenAt(now(), request)
    settle(answered(handle(seen), seen.at, decorate(seen)))
    return () => {}
  }
