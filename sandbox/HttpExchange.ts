/** One HTTP call of the scenario. A failed step shows the whole request and response. */
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"

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

export interface Call {
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

/** Fails the step, with the exchange to show, unless the condition holds. */
export const demand = (
  condition: boolean,
  problem: string,
  exchange?: Exchange
): Effect.Effect<void, StepFailed> =>
  condition
    ? Effect.void
    : Effect.fail(new StepFailed(exchange === undefined ? { problem } : { problem, exchange }))

/** Checks the status and returns the JSON body, which must be an object. */
export const expectJson = (
  exchange: Exchange,
  status: number
): Effect.Effect<Readonly<Record<string, unknown>>, StepFailed> =>
  Effect.gen(function* () {
    yield* demand(exchange.status === status, `expected status ${status}, got ${exchange.status}`, exchange)
    const json = yield* Effect.try({
      try: (): unknown => JSON.parse(exchange.text),
      catch: () => new StepFailed({ problem: "the response is not JSON", exchange })
    })
    return typeof json === "object" && json !== null && !Array.isArray(json)
      ? { ...json }
      : yield* new StepFailed({ problem: "the response is not a JSON object", exchange })
  })

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

/** Checks the status and the error code. */
export const expectCode = (
  exchange: Exchange,
  status: number,
  code: string
): Effect.Effect<void, StepFailed> =>
  Effect.flatMap(expectJson(exchange, status), ({ error }) =>
    demand(
      typeof error === "object" && error !== null && "code" in error && error.code === code,
      `expected the code ${code}`,
      exchange
    )
  )

/** Request and response as text for a person. */
export const render = (exchange: Exchange): string =>
  [
    `> ${exchange.method} ${exchange.url}`,
    ...Object.entries(exchange.requestHeaders).map(([name, value]) => `> ${name}: ${value}`),
    ...(exchange.requestBody === undefined ? [] : [">", `> ${exchange.requestBody}`]),
    `< ${exchange.status}`,
    ...[...exchange.headers].map(([name, value]) => `< ${name}: ${value}`),
    "<",
    `< ${exchange.text}`
  ].join("\n")
