/** One HTTP exchange: its request id, its time limit, and the failures that it maps to. */
import type { HttpApiDecodeError } from "@effect/platform/HttpApiError"
import type * as HttpClientError from "@effect/platform/HttpClientError"
import * as Effect from "effect/Effect"
import * as FiberRef from "effect/FiberRef"
import { globalValue } from "effect/GlobalValue"
import * as ParseResult from "effect/ParseResult"
import { type Failure, InvalidInput, isFailure } from "../src/schema/Failure.ts"
import { TimedOut, TransportFailed, UnexpectedAnswer, type WireFailure, withExchange } from "./Failures.ts"

/** The state of one exchange. */
export interface ExchangeState {
  readonly requestId: string
  /** Access token to send. */
  readonly bearer: string | undefined
  sent: boolean
  answer:
    | { readonly status: number; readonly headers: Readonly<Record<string, string | undefined>> }
    | undefined
}

/** The exchange of the current fiber. The HTTP client records in it that the request was sent and what was answered. */
export const currentExchange = globalValue("music/client/currentSeen", () =>
  FiberRef.unsafeMake<ExchangeState | undefined>(undefined)
)

/** Errors of the derived client itself; `runAttempt` maps them. */
export type DerivedClientError = HttpClientError.HttpClientError | ParseResult.ParseError | HttpApiDecodeError

const retryAfterPattern = /^\d{1,6}$/

// The text after the comma is the rejected value.
const withoutValue = (message: string): string => message.replace(/, actual [\s\S]*$/, "")

/** A request that does not fit its schema; it was not sent. */
const toInvalidInput = (error: ParseResult.ParseError): InvalidInput =>
  new InvalidInput({
    details: {
      fields: ParseResult.ArrayFormatter.formatErrorSync(error)
        .slice(0, 20)
        .map(({ message, path }) => ({
          path: path.length === 0 ? "body" : path.map(String).join("."),
          problem: withoutValue(message)
        }))
    }
  })

const readExchange = (seen: ExchangeState) => {
  const retryAfter = seen.answer?.headers["retry-after"]
  return {
    requestId: seen.sent ? (seen.answer?.headers["x-request-id"] ?? seen.requestId) : null,
    ...(retryAfter !== undefined && retryAfterPattern.test(retryAfter)
      ? { retryAfterSeconds: Number(retryAfter) }
      : {})
  }
}

const toFailure =
  (seen: ExchangeState) =>
  <E extends Failure | DerivedClientError>(
    error: E | TimedOut
  ): Extract<E, Failure> | InvalidInput | WireFailure => {
    if (error instanceof TimedOut) return error
    // `isFailure` narrows to what `Extract` names, which the type checker cannot infer for a type parameter.
    if (isFailure(error)) return error as Extract<E, Failure>
    if (error instanceof ParseResult.ParseError && !seen.sent) return toInvalidInput(error)
    // The remaining errors are the derived client's: no answer, or one that does not fit the contract.
    return seen.answer === undefined
      ? new TransportFailed({})
      : new UnexpectedAnswer({ status: seen.answer.status })
  }

/** Runs one exchange for at most `milliseconds`, and attaches its request id to a failure. */
export const runAttempt =
  (facts: Pick<ExchangeState, "requestId" | "bearer"> & { readonly milliseconds: number }) =>
  <A, E extends Failure | DerivedClientError>(
    run: Effect.Effect<A, E>
  ): Effect.Effect<A, Extract<E, Failure> | InvalidInput | WireFailure> =>
    Effect.suspend(() => {
      const { bearer, milliseconds, requestId } = facts
      const seen: ExchangeState = { requestId, bearer, sent: false, answer: undefined }
      return run.pipe(
        Effect.timeoutFail({ duration: milliseconds, onTimeout: () => new TimedOut({}) }),
        Effect.mapError((error) => withExchange(toFailure(seen)(error), readExchange(seen))),
        Effect.locally(currentExchange, seen)
      )
    })
