/** A client that repeats a request under the same key until the answer is final. */
import { setTimeout as pause } from "node:timers/promises"

export interface Answer {
  readonly status: number
  readonly body: string
}

export interface Request {
  readonly method?: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  /** Text is sent as it is, all else as JSON. */
  readonly body?: unknown
}

/** Repeats until the answer has one of these statuses. Any other final answer rejects. */
export type Insist = (
  request: Request | (() => Request),
  ...statuses: ReadonlyArray<number>
) => Promise<Answer>

/** Milliseconds of one attempt. */
const attemptLimit = 12_000

const attempt = async (
  base: string,
  { body, headers = {}, method = "POST", path }: Request
): Promise<Answer | undefined> => {
  const all = new Headers(headers)
  if (body !== undefined) all.set("content-type", "application/json")
  try {
    const response = await fetch(`${base}${path}`, {
      method,
      headers: all,
      signal: AbortSignal.timeout(attemptLimit),
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) })
    })
    return { status: response.status, body: await response.text() }
  } catch {
    return undefined
  }
}

const isRetryable = ({ body, status }: Answer): boolean =>
  status >= 500 || status === 429 || (status === 409 && body.includes('"retryable":true'))

/** `target`: the base URL of the next attempt, undefined while no instance listens. `jitter`: from 0 to 1. */
export const insistAt =
  (target: () => string | undefined, timeoutMillis: number, jitter: () => number): Insist =>
  async (request, ...statuses) => {
    const end = performance.now() + timeoutMillis
    let last: Answer | undefined
    while (performance.now() < end) {
      const asked = typeof request === "function" ? request() : request
      const base = target()
      last = base === undefined ? undefined : await attempt(base, asked)
      if (last !== undefined && statuses.includes(last.status)) return last
      if (last !== undefined && !isRetryable(last))
        throw new Error(`${asked.path} answered ${last.status} ${last.body}`)
      await pause(20 + jitter() * 40)
    }
    throw new Error(`not acknowledged in ${timeoutMillis} ms; last ${last?.status} ${last?.body}`)
  }

/** Polls until the condition holds. The description is part of the error otherwise. */
export const until = async (
  description: string,
  holds: () => boolean | Promise<boolean>,
  { every = 20, within = 15_000 } = {}
): Promise<void> => {
  const end = performance.now() + within
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(`not within ${within} ms: ${description}`)
    await pause(every)
  }
}

/** Work that is begun now and must have succeeded in the end. */
export const makeWork = () => {
  const begun: Array<Promise<unknown>> = []
  return {
    begin: (work: Promise<unknown>): void => {
      begun.push(work)
      // Awaited at the end.
      work.catch(() => undefined)
    },
    failures: async (): Promise<ReadonlyArray<string>> =>
      (await Promise.allSettled(begun)).flatMap((result) =>
        result.status === "rejected" ? [String(result.reason)] : []
      )
  }
}
