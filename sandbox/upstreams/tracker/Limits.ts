/** Request limits (issue-tracker.md 3): counted per account and resource, shown on every answer, and switched on by hand. */
import type { Now, Reply } from "../Simulator.ts"
import { message } from "./Replies.ts"

export type Resource = "core" | "search"

/** Requests, and the window in milliseconds. */
const windows: Readonly<Record<Resource, { readonly limit: number; readonly length: number }>> = {
  core: { limit: 5000, length: 3_600_000 },
  search: { limit: 30, length: 60_000 }
}

interface Bucket {
  readonly resetAt: number
  used: number
}

type Headers = Readonly<Record<string, string>>

const primaryMessage = "API rate limit exceeded for this user."
export const secondaryMessage =
  "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."

const headersOf = (resource: Resource, used: number, resetAt: number): Headers => {
  const { limit } = windows[resource]
  return {
    "x-ratelimit-limit": String(limit),
    "x-ratelimit-remaining": String(Math.max(0, limit - used)),
    "x-ratelimit-used": String(used),
    "x-ratelimit-reset": String(Math.ceil(resetAt / 1000)),
    "x-ratelimit-resource": resource
  }
}

export class Limits {
  private readonly now: Now
  private readonly buckets = new Map<string, Bucket>()
  private exhausted: { readonly until: number; readonly status: 403 | 429 } | undefined

  constructor(now: Now) {
    this.now = now
  }

  /** Exhausts the primary limit of everybody until some seconds from now. */
  exhaust(seconds: number, status: 403 | 429): void {
    this.exhausted = { until: this.now() + seconds * 1000, status }
  }

  clear(): void {
    this.exhausted = undefined
    this.buckets.clear()
  }

  private bucket(login: string, resource: Resource): Bucket {
    const name = `${resource} ${login}`
    const known = this.buckets.get(name)
    if (known !== undefined && this.now() < known.resetAt) return known
    const fresh = { resetAt: this.now() + windows[resource].length, used: 0 }
    this.buckets.set(name, fresh)
    return fresh
  }

  /** The headers as they stand, without counting a request. */
  headers(login: string, resource: Resource): Headers {
    if (this.exhausted !== undefined && this.now() < this.exhausted.until)
      return headersOf(resource, windows[resource].limit, this.exhausted.until)
    const { used, resetAt } = this.bucket(login, resource)
    return headersOf(resource, used, resetAt)
  }

  /** Counts a request; the refusal when it is over the limit, and then it was not executed. */
  charge(login: string, resource: Resource): Reply | undefined {
    if (this.exhausted !== undefined && this.now() < this.exhausted.until)
      return message(this.exhausted.status, primaryMessage, this.headers(login, resource))
    const bucket = this.bucket(login, resource)
    if (bucket.used >= windows[resource].limit)
      return message(403, primaryMessage, this.headers(login, resource))
    bucket.used += 1
    return undefined
  }
}
