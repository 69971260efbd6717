/** One HTTP call, of the scenario, the console, the documentation page and tests. A failed one shows the whole request and response. */
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import { isRecord, parseJson } from "./upstreams/Contract.ts"

export interface Exchange {
  readonly method: string
  readonly url: string
  readonly requestHeaders: Readonly<Record<string, string>>
  readonly requestBody: string | undefined
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** Milliseconds. */
  readonly took: number
}

/** A step of the scenario had another result than expected. */
export class StepFailed extends Data.TaggedError("StepFailed")<{
  readonly problem: string
  readonly exchange?: Exchange
}> {}

interface Call {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  /** An object is sent as JSON, text unchanged. */
  readonly body?: unknown
}

/** Sends one request. A lost connection fails the step. */
export const call = (
  url: string,
  { method = "GET", headers = {}, body }: Call = {}
): Effect.Effect<Exchange, StepFailed> =>
  Effect.gen(function* () {
    const requestBody = body === undefined || typeof body === "string" ? body : JSON.stringify(body)
    const requestHeaders = {
      ...(requestBody === undefined ? {} : { "content-type": "application/json" }),
      ...Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
    }
    const startedAt = yield* Clock.currentTimeMillis
    const answer = yield* Effect.tryPromise({
      try: async (signal) => {
        const response = await fetch(url, {
          method,
          headers: requestHeaders,
          signal,
          ...(requestBody === undefined ? {} : { body: requestBody })
        })
        return { status: response.status, headers: response.headers, text: await response.text() }
      },
      catch: (error) => new StepFailed({ problem: `${method} ${url}: ${String(error)}` })
    })
    const took = (yield* Clock.currentTimeMillis) - startedAt
    return { method, url, requestHeaders, requestBody, ...answer, took }
  })

/** Checks the status and returns the JSON body, which must be an object. */
export const expectJson = (
  exchange: Exchange,
  status: number
): Effect.Effect<Readonly<Record<string, unknown>>, StepFailed> => {
  const fail = (problem: string) => Effect.fail(new StepFailed({ problem, exchange }))
  if (exchange.status !== status) return fail(`expected status ${status}, got ${exchange.status}`)
  const json = parseJson(Buffer.from(exchange.text))
  return isRecord(json) ? Effect.succeed(json) : fail("the response is not a JSON object")
}

/** A text field of a JSON body. */
export const textOf = (
  body: Readonly<Record<string, unknown>>,
  name: string
): Effect.Effect<string, StepFailed> => {
  const value = body[name]
  return typeof value === "string"
    ? Effect.succeed(value)
    : Effect.fail(new StepFailed({ problem: `the response has no text ${name}` }))
}
