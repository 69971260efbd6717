/** Rate limits (issue-tracker.md 3): counted per account and shown on every response. */
import type { Now, Reply } from "../Simulator.ts"
import { message } from "./Replies.ts"

/** Requests per window, and the window in milliseconds. */
const limit = 5000
const windowLength = 3_600_000

interface Bucket {
  readonly resetAt: number
  used: number
}

type Headers = Readonly<Record<string, string>>

const primaryMessage = "API rate limit exceeded for this user."
export const secondaryMessage =
  "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."

const headersOf = (used: number, resetAt: number): Headers => ({
  "x-ratelimit-limit": String(limit),
  "x-ratelimit-remaining": String(Math.max(0, limit - used)),
  "x-ratelimit-used": String(used),
  "x-ratelimit-reset": String(Math.ceil(resetAt / 1000)),
  "x-ratelimit-resource": "core"
})

export class Limits {
  private readonly now: Now
  private readonly buckets = new Map<string, Bucket>()

  constructor(now: Now) {
    this.now = now
  }

  private bucket(login: string): Bucket {
    const known = this.buckets.get(login)
    if (known !== undefined && this.now() < known.resetAt) return known
    const fresh = { resetAt: this.now() + windowLength, used: 0 }
    this.buckets.set(login, fresh)
    return fresh
  }

  /** The current headers. Counts no request. */
  headers(login: string): Headers {
    const { used, resetAt } = this.bucket(login)
    return headersOf(used, resetAt)
  }

  /** Counts a request. Over the limit, returns the error response; the request is not executed. */
  charge(login: string): Reply | undefined {
    const bucket = this.bucket(login)
    if (bucket.used >= limit) return message(403, primaryMessage, this.headers(login))
    bucket.used += 1
    return undefined
  }
}
