/**
 * Who may store how many reports (docs/limits.md, "Stored reports"): how many in a time, counted in this process, and how many bytes.
 * Verified reporters are counted by public id and plane. All others are counted by client address, also those with a token that IAM could
 * not verify: any text in a token's form would pass otherwise.
 */
import { createHmac } from "node:crypto"
import * as Redacted from "effect/Redacted"
import { siteOf } from "../Addresses.ts"
import { type Plane, planeId } from "../Plane.ts"
import { makeQuota, takeAll } from "../combinators/Quota.ts"
import type { Reporter, ReportRoom } from "../Store.ts"

const makeQuotas = (perMinute: number, perHour: number) => [
  makeQuota({ name: "reports", quota: perMinute, windowSeconds: 60 }),
  makeQuota({ name: "reports", quota: perHour, windowSeconds: 3_600 })
]

/** Makes the function that takes the uses of a new report (`takeAll`). A report that is not stored gives them back. */
export const makeReportQuota = (rateLimit: boolean) => {
  const byAddress = makeQuotas(10, 60)
  const byReporter = makeQuotas(30, 300)

  /** Runs before the report is stored: counted afterwards, many concurrent reports would all pass. `now` is monotonic milliseconds. */
  return (plane: Plane, reporter: Reporter, clientNetwork: string, now: number) => {
    const isVerified = reporter._tag === "Verified"
    const key = isVerified ? `${planeId(plane)} ${reporter.publicId}` : clientNetwork
    const quotas = isVerified ? byReporter : byAddress
    return takeAll(rateLimit ? quotas.map((quota) => [quota, key]) : [], now)
  }
}

/** Parts of the room. `bound` is `MUSIC_REPORTS_MEGABYTES` in bytes. */
export const roomOf = (bound: number): ReportRoom => ({
  unboundUpTo: bound / 2,
  reporter: bound / 10,
  network: bound / 50,
  all: bound * 0.8,
  withNewcomers: bound
})

/**
 * The digest of the network of a client's address or /64 (`RequestContext`). The key is a secret of the server, so that a reader of the
 * database alone cannot try all addresses; instances with the same secret make the same digests.
 */
export const networkDigest = (secret: Redacted.Redacted, clientNetwork: string): string => {
  const network = siteOf(clientNetwork).split(".", 3).join(".")
  return createHmac("sha256", Redacted.value(secret))
    .update(`music report network v1\n${network}`)
    .digest("hex")
}
