/**
 * How many reports are accepted: rate limits per sender, counted in this process, and the bytes of all stored reports. Verified
 * reporters are counted by public id and plane. All others are counted by client address, also those with a token that IAM could not
 * verify: any text in a token's form would pass otherwise.
 */
import * as Effect from "effect/Effect"
import { RateLimited, ReportsFull } from "../schema/Failure.ts"
import { monotonicMillis } from "./MonotonicTime.ts"
import { type Plane, planeId } from "./Plane.ts"
import { makeQuota } from "./Quota.ts"
import { RequestContext } from "./RequestContext.ts"
import { Settings } from "./Settings.ts"
import type { Reporter } from "./Store.ts"

const perMinute = (quota: number) => makeQuota({ name: "reports", quota, windowSeconds: 60 })
const perHour = (quota: number) => makeQuota({ name: "reports", quota, windowSeconds: 3_600 })

/** The share of all bytes that reports without a verified reporter may fill. */
const unverifiedShare = 0.8

/** Retry-After in seconds. The hourly retention or an operator frees room. */
const fullPause = 3_600

/** What a report may take; where a rate limit is exhausted, nothing was taken. */
export interface ReportAllowance {
  /** Bytes of all stored reports, with this one. 0 where a rate limit is exhausted: only a replay needs no room. */
  readonly maxBytes: number
  /** Makes the failure of a report that finds no room. */
  readonly makeFailure: () => RateLimited | ReportsFull
  /** Returns the use when the report was not stored. */
  readonly giveBack: Effect.Effect<void>
}

export class ReportQuota extends Effect.Service<ReportQuota>()("music/ReportQuota", {
  effect: Effect.gen(function* () {
    const { rateLimit, reportsBytes } = yield* Settings
    const byAddress = [perMinute(10), perHour(60)]
    const byReporter = [perMinute(30), perHour(300)]

    /** Runs before the report is stored: counted afterwards, many concurrent reports would all pass. */
    const take = (plane: Plane, reporter: Reporter): Effect.Effect<ReportAllowance> =>
      Effect.gen(function* () {
        const verified = reporter._tag === "Verified"
        const room = {
          maxBytes: verified ? reportsBytes : reportsBytes * unverifiedShare,
          makeFailure: () => new ReportsFull({ retryAfterSeconds: fullPause })
        }
        if (!rateLimit) return { ...room, giveBack: Effect.void }
        const { clientNetwork } = yield* RequestContext
        const key = verified ? `${planeId(plane)} ${reporter.publicId}` : clientNetwork
        const now = yield* monotonicMillis
        const takes = (verified ? byReporter : byAddress).map((quota) => ({
          quota,
          reading: quota.take(key, now)
        }))
        const giveBack = Effect.sync(() => {
          for (const { quota, reading } of takes) if (reading.retryAfterSeconds === 0) quota.giveBack(key)
        })
        const longest = takes
          .map(({ reading }) => reading)
          .reduce((one, other) => (other.retryAfterSeconds > one.retryAfterSeconds ? other : one))
        if (longest.retryAfterSeconds === 0) return { ...room, giveBack }
        yield* giveBack
        const makeFailure = () =>
          new RateLimited({ retryAfterSeconds: longest.retryAfterSeconds, quota: longest })
        return { maxBytes: 0, makeFailure, giveBack: Effect.void }
      })

    return { take } as const
  })
}) {}
