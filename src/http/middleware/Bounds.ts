import * as Context from "effect/Context"
import type { QuotaPolicy } from "../../schema/Failure.ts"

/** Bounds of the server; tests lower them. */
export class Bounds extends Context.Reference<Bounds>()("music/http/Bounds", {
  defaultValue: () => ({
    /** Requests in flight at once; more would only wait and time out together. */
    inFlight: 1_000,
    /** Bytes of all bodies that arrive: bodies that stall could take 1 MiB for each place. */
    arrivingBytes: 256 * 1024 ** 2,
    /** Of Node's timers: for so long beyond the deadline of a request a client may read nothing of its answers. */
    unreadMillis: 60_000,
    /** Of one client address (a /64 of IPv6), where `MUSIC_RATE_LIMIT` is not off. */
    address: { name: "address", quota: 1_200, windowSeconds: 60 } satisfies QuotaPolicy,
    /** Of one access token. */
    credential: { name: "credential", quota: 600, windowSeconds: 60 } satisfies QuotaPolicy
  })
}) {}
