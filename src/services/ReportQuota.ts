/**
 * How many reports one sender may store. Whom IAM vouched for is counted by public id and plane. Everybody else is counted by client
 * address, also who sent a token while IAM was away: any text of a token's form would pass otherwise. Counts in this process.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { RateLimited } from "../schema/Failure.ts"
import { monotonicMillis } from "./MonotonicTime.ts"
import { type Plane, planeId } from "./Plane.ts"
import { makeQuota } from "./Quota.ts"
import { RequestContext } from "./RequestContext.ts"
import { Settings } from "./Settings.ts"
import type { Reporter } from "./Store.ts"

const perMinute = (quota: number) => makeQuota({ name: "reports", quota, windowSeconds: 60 })
const perHour = (quota: number) => makeQuota({ name: "reports", quota, windowSeconds: 3_600 })

/** A report's part of its sender's quotas; `refusal` when there is none left, and then nothing was taken. */
export interface ReportAllowance {
  readonly refusal: Option.Option<RateLimited>
  /** For a report that was not stored after all. */
  readonly giveBack: Effect.Effect<void>
}

const unlimited: ReportAllowance = { refusal: Option.none(), giveBack: Effect.void }

export class ReportQuota extends Effect.Service<ReportQuota>()("music/ReportQuota", {
  effect: Effect.gen(function* () {
    const { rateLimit } = yield* Settings
    const byAddress = [perMinute(10), perHour(60)]
    const byReporter = [perMinute(30), perHour(300)]

    /** Taken before the report is stored: many at once would all pass if it were only counted after. */
    const take = (plane: Plane, reporter: Reporter): Effect.Effect<ReportAllowance> =>
      Effect.gen(function* () {
        if (!rateLimit) return unlimited
        const { clientNetwork } = yield* RequestContext
        const verified = reporter._tag === "Verified"
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
        if (longest.retryAfterSeconds === 0) return { refusal: Option.none(), giveBack }
        yield* giveBack
        const refusal = new RateLimited({ retryAfterSeconds: longest.retryAfterSeconds, quota: longest })
        return { refusal: Option.some(refusal), giveBack: Effect.void }
      })

    return { take } as const
  })
}) {}
