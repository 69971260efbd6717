/** The promise client's methods as effects: results become failures with a tag, and an interruption is the caller's signal. */
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import type { HttpMethod } from "@effect/platform/HttpMethod"
import type * as Cause from "effect/Cause"
import type * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberRef from "effect/FiberRef"
import { globalValue } from "effect/GlobalValue"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as Runtime from "effect/Runtime"
import * as Stream from "effect/Stream"
import { type Fetch, makeSend, type Send } from "../Transport.ts"
import { isResult, leadingParameters, makeClient, type MusicClient as PromiseClient } from "../Client.ts"
import type { MusicClientOptions } from "../Options.ts"
import type { Metadata, MusicError, MusicErrorCode, Result, Status, UnknownCode } from "../Types.ts"
import { carriedHeaders, noExchange } from "../calls/Deadline.ts"
import type { Time } from "../calls/Time.ts"
import { isUnknownCode } from "../failures/Failures.ts"
import { createTelemetry, type Telemetry, type TelemetryOptions } from "../telemetry/Telemetry.ts"

/** `rate_limited` is `RateLimited`. */
type PascalCase<Text extends string> = Text extends `${infer Head}_${infer Rest}`
  ? `${Capitalize<Head>}${PascalCase<Rest>}`
  : Capitalize<Text>

/** The tag of a failure: its code in Pascal case; `UnknownFailure` for a code that this version does not know. */
type TagOf<Code extends string> = Code extends UnknownCode ? "UnknownFailure" : PascalCase<Code>

/** Ends of a call that are no failures of an effect: an interruption and a defect. */
type NoFailure = "aborted" | "client_defect"

type Tagged<E> = E extends { readonly code: infer Code extends string }
  ? Code extends NoFailure
    ? never
    : Cause.YieldableError & E & { readonly _tag: TagOf<Code> }
  : never

/** All failures of a call, or those with some codes: an `Error` with the members of `MusicError` and a `_tag`. */
export type MusicFailure<Code extends MusicErrorCode = MusicErrorCode> = Tagged<
  Extract<MusicError, { readonly code: Code }>
>

/** The methods of the promise client, with effects. */
type Effectful<Methods> = {
  readonly [Name in keyof Methods]: Methods[Name] extends (
    ...given: infer Given
  ) => Promise<Result<infer A, infer E>> | Result<infer A, infer E>
    ? (...given: Given) => Effect.Effect<A, Tagged<E>>
    : Methods[Name] extends (...given: infer Given) => Promise<Status<infer E>>
      ? (...given: Given) => Effect.Effect<Status<Tagged<E>>>
      : Methods[Name] extends (...given: infer Given) => infer A
        ? (...given: Given) => Effect.Effect<Awaited<A>>
        : never
}

/** A client of the service. Every failure is in its type; defects are bugs. */
export interface EffectClient extends Effectful<Omit<PromiseClient, "close">> {
  readonly telemetry: Effectful<Omit<Telemetry, "close">>
}

class Failure extends Data.Error<{ readonly code: string }> {
  readonly _tag = isUnknownCode(this as unknown as MusicError)
    ? "UnknownFailure"
    : this.code.replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase())
}

const toFailure = (error: MusicError): MusicFailure => {
  const failure = new Failure(error)
  if (error.response !== undefined) Object.defineProperty(failure, "response", { value: error.response })
  // The members are those of the error's own code.
  return failure as unknown as MusicFailure
}

const exchangeOf = globalValue("music/client/exchange", () =>
  FiberRef.unsafeMake<{ metadata: Metadata } | undefined>(undefined)
)

/** The value of a call with the exchange behind it: its request id and the quotas after it. */
export const withMetadata = <A, E, R>(
  effect: Effect.Effect<A, E, R>
): Effect.Effect<readonly [A, Metadata], E, R> =>
  Effect.suspend(() => {
    const exchange = { metadata: noExchange }
    return Effect.map(
      Effect.locally(effect, exchangeOf, exchange),
      (value) => [value, exchange.metadata] as const
    )
  })

/** Sends with the program's own `HttpClient`, which serves the core as its `fetch`. */
const sendWith = (client: HttpClient.HttpClient, runtime: Runtime.Runtime<never>): Send => {
  // The tracer would add `b3`, which the service's CORS does not allow.
  const untraced = HttpClient.withTracerDisabledWhen(client, () => true)
  const fetch: Fetch = async (url, { body, headers, method = "GET", signal, ...init } = {}) => {
    const plain = HttpClientRequest.make(method as HttpMethod)(url)
    const request = typeof body === "string" ? HttpClientRequest.bodyText(plain, body) : plain
    const exchange = untraced
      .execute(HttpClientRequest.setHeaders(request, headers as never))
      .pipe(Effect.provideService(FetchHttpClient.RequestInit, init), Effect.either)
    const answer = await Runtime.runPromise(runtime)(exchange, signal ? { signal } : {})
    if (answer._tag === "Left") return Promise.reject(answer.left.cause)
    const { headers: received, status, stream } = answer.right
    // An answer without a body has no stream.
    const whole = Stream.catchAll(stream, (error) =>
      error.reason === "EmptyBody" ? Stream.empty : Stream.fail(error)
    )
    // The parts of a response that the core reads.
    const parts = {
      status,
      headers: Object.entries(received),
      body: Stream.toReadableStreamRuntime(whole, runtime)
    }
    return parts as unknown as Response
  }
  // The client's own function: a `TypeError` behind it is the platform's, also without a cause.
  return makeSend(fetch, false)
}

/** The clock and the chance of the program. */
const timeOf = (runtime: Runtime.Runtime<never>, clock: Clock.Clock): Time => {
  const fork = Runtime.runFork(runtime)
  return {
    now: () => clock.unsafeCurrentTimeMillis(),
    monotonic: () => Number(clock.unsafeCurrentTimeNanos() / 1_000n) / 1_000,
    random: () => Runtime.runSync(runtime)(Random.next),
    after: (milliseconds, run) => {
      const fiber = fork(Effect.zipRight(clock.sleep(Duration.millis(milliseconds)), Effect.sync(run)))
      return () => void Effect.runFork(Fiber.interruptFork(fiber))
    }
  }
}

/** `traceparent` of the current span, if there is one (W3C Trace Context). */
const traceHeaders = Effect.match(Effect.currentSpan, {
  onFailure: () => ({}),
  onSuccess: ({ sampled, spanId, traceId }) => ({
    traceparent: `00-${traceId}-${spanId}-${sampled ? "01" : "00"}`
  })
})

type Method = (...given: ReadonlyArray<unknown>) => unknown

const toEffect = (
  name: string,
  method: Method
): ((...given: ReadonlyArray<unknown>) => Effect.Effect<unknown, MusicFailure>) => {
  const at = leadingParameters[name] ?? 0
  return (...given) =>
    Effect.gen(function* () {
      const headers = yield* traceHeaders
      const options = given[at]
      const own: unknown = Object(options).signal
      const answer = yield* Effect.promise(async (interruption) => {
        // The core refuses what is no signal.
        const signal =
          own instanceof AbortSignal ? AbortSignal.any([own, interruption]) : (own ?? interruption)
        return method(
          ...Array.from({ length: at }, (_, index) => given[index]),
          typeof options === "object" || options === undefined
            ? { ...options, signal, [carriedHeaders]: headers }
            : options
        )
      })
      const error: MusicError | undefined = Object(answer).error
      if (error?.code === "aborted") return yield* Effect.interrupt
      if (!isResult(answer))
        return error === undefined ? answer : { ...Object(answer), error: toFailure(error) }
      if (answer.ok) {
        const exchange = yield* FiberRef.get(exchangeOf)
        if (exchange !== undefined) exchange.metadata = answer.metadata
        return answer.value
      }
      return answer.error.code === "client_defect"
        ? yield* Effect.die(answer.error.cause)
        : yield* Effect.fail(toFailure(answer.error))
    })
}

const effectful = <Methods extends object>(methods: Methods): Effectful<Methods> =>
  // Each method keeps its name, its parameters and its values.
  Object.fromEntries(
    Object.entries(methods).map(([name, method]) => [name, toEffect(name, method)])
  ) as unknown as Effectful<Methods>

/** The service of a music backend: sessions, tings, reports and telemetry, with retries and typed failures. */
export class MusicClient extends Context.Tag("music/MusicClient")<MusicClient, EffectClient>() {
  /**
   * A client until the scope closes; then the last telemetry is sent, for at most 5 s. Needs an `HttpClient` that does not
   * follow redirects, such as `FetchHttpClient.layer`: a session must not be sent to another address.
   */
  static layer(
    options: MusicClientOptions,
    telemetryOptions: TelemetryOptions = {}
  ): Layer.Layer<MusicClient, never, HttpClient.HttpClient> {
    const make = Effect.gen(function* () {
      const runtime = yield* Effect.runtime<never>()
      const send = sendWith(yield* HttpClient.HttpClient, runtime)
      const client = makeClient(options, { time: timeOf(runtime, yield* Effect.clock), send })
      const telemetry = createTelemetry(client, telemetryOptions)
      yield* Effect.addFinalizer(() => Effect.promise(() => client.close()))
      const { close: _, ...methods } = client
      const { close: _closed, ...queue } = telemetry
      return { ...effectful(methods), telemetry: effectful(queue) }
    })
    return Layer.scoped(MusicClient, make)
  }
}
