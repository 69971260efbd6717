/** A client that repeats a request under the same key until the answer is final. */
import { setTimeout as pause } from "node:timers/promises"

export interface Answer {
  readonly status: number
  readonly body: string
  /** Seconds of `Retry-After`; 0 without it. */
  readonly retryAfter: number
}

export interface Request {
  readonly method?: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
}

/** The base URL of the next attempt; undefined while no instance listens. */
export type Target = () => string | undefined

export interface Client {
  /** One attempt; undefined when no answer came. */
  readonly attempt: (request: Request) => Promise<Answer | undefined>
  /** Repeats until the answer has one of these statuses. Any other final answer rejects. */
  readonly insist: (request: Request | (() => Request), ...statuses: ReadonlyArray<number>) => Promise<Answer>
  readonly attempts: () => number
}

/** Milliseconds of one attempt. */
const attemptLimit = 12_000

const isRetryable = ({ body, status }: Answer): boolean =>
  status >= 500 || status === 429 || (status === 409 && body.includes('"retryable":true'))

/** `timeoutMillis`: of all attempts together. `jitter`: from 0 to 1. A patient client pauses as `Retry-After` asks. */
export const makeClient = (
  target: Target,
  timeoutMillis: number,
  jitter: () => number,
  { patient = false } = {}
): Client => {
  let attempts = 0
  const attempt = async ({
    body,
    headers = {},
    method = "POST",
    path
  }: Request): Promise<Answer | undefined> => {
    const base = target()
    if (base === undefined) return undefined
    attempts += 1
    try {
      const response = await fetch(`${base}${path}`, {
        method,
        headers: {
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
        },
        signal: AbortSignal.timeout(attemptLimit),
        ...(body === undefined
          ? {}
          : { body: typeof body === "string" || Buffer.isBuffer(body) ? body : JSON.stringify(body) })
      })
      return {
        status: response.status,
        body: await response.text(),
        retryAfter: Number(response.headers.get("retry-after") ?? 0)
      }
    } catch {
      return undefined
    }
  }
  return {
    attempt,
    attempts: () => attempts,
    insist: async (request, ...statuses) => {
      const end = performance.now() + timeoutMillis
      let last: Answer | undefined
      while (performance.now() < end) {
        const asked = typeof request === "function" ? request() : request
        last = await attempt(asked)
        if (last !== undefined) {
          if (statuses.includes(last.status)) return last
          if (!isRetryable(last)) throw new Error(`${asked.path} answered ${last.status} ${last.body}`)
        }
        const asks = patient ? (last?.retryAfter ?? 0.2) * 1_000 : 0
        await pause(asks + 20 + jitter() * (asks + 40))
      }
      throw new Error(`not acknowledged in ${timeoutMillis} ms; last ${last?.status} ${last?.body}`)
    }
  }
}

/** Polls until the condition holds. The description is part of the error otherwise. */
export const until = async (
  description: string | (() => string),
  holds: () => boolean | Promise<boolean>,
  { every = 20, within = 15_000 } = {}
): Promise<void> => {
  const end = performance.now() + within
  while (!(await holds())) {
    if (performance.now() > end)
      throw new Error(
        `not within ${within} ms: ${typeof description === "string" ? description : description()}`
      )
    await pause(every)
  }
}
