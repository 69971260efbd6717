/**
 * How many reports a sender may store or move up in a time, counted in this process. Verified reporters are counted by public id and plane.
 * All others are counted by client address, also those with a token that IAM could not verify: any text in a token's form
 * would pass otherwise.
 */
import * as Effect from "effect/Effect"
import { Failure } from "../schema/Failure.ts"
import { type Plane, planeId } from "./Plane.ts"
import { makeQuota } from "./Quota.ts"
import { Settings } from "./Settings.ts"
import type { Reporter } from "./Store.ts"

const perMinute = (quota: number) => makeQuota({ name: "reports", quota, windowSeconds: 60 })
const perHour = (quota: number) => makeQuota({ name: "reports", quota, windowSeconds: 3_600 })

/** Where a rate limit is exhausted, nothing was taken. */
export interface ReportAllowance {
  /** Makes the failure of a new report; undefined when the limits allow one, or a replay to move up. */
  readonly makeRefusal: (() => Failure<"rate_limited">) | undefined
  /** Returns the use when the report was neither stored nor moved up. */
  readonly giveBack: () => void
}

const unlimited: ReportAllowance = { makeRefusal: undefined, giveBack: () => undefined }

export class ReportQuota extends Effect.Service<ReportQuota>()("music/ReportQuota", {
  effect: Effect.gen(function* () {
    const { rateLimit } = yield* Settings
    const byAddress = [perMinute(10), perHour(60)]
    const byReporter = [perMinute(30), perHour(300)]

    /** Runs before the report is stored: counted afterwards, many concurrent reports would all pass. `now` is monotonic milliseconds. */
    const take = (plane: Plane, reporter: Reporter, clientNetwork: string, now: number): ReportAllowance => {
      if (!rateLimit) return unlimited
      const verified = reporter._tag === "Verified"
      const key = verified ? `${planeId(plane)} ${reporter.publicId}` : clientNetwork
      const takes = (verified ? byReporter : byAddress).map((quota) => ({
        quota,
        reading: quota.take(key, now)
      }))
      const giveBack = () => {
        for (const { quota, reading } of takes) if (reading.retryAfterSeconds === 0) quota.giveBack(key)
      }
      const longest = takes
        .map(({ reading }) => reading)
        .reduce((one, other) => (other.retryAfterSeconds > one.retryAfterSeconds ? other : one))
      if (longest.retryAfterSeconds === 0) return { makeRefusal: undefined, giveBack }
      giveBack()
      return {
        ...unlimited,
        makeRefusal: () =>
          new Failure("rate_limited", { retryAfterSeconds: longest.retryAfterSeconds, quota: longest })
      }
    }

    return { take } as const
  })
}) {}
