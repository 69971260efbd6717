/** One HTTP exchange: what it is called in the log, how long it may take, and what its failures mean. */
import type { HttpApiDecodeError } from "@effect/platform/HttpApiError"
import type * as HttpClientError from "@effect/platform/HttpClientError"
import * as Effect from "effect/Effect"
import * as FiberRef from "effect/FiberRef"
import { globalValue } from "effect/GlobalValue"
import * as ParseResult from "effect/ParseResult"
import { type Failure, InvalidInput, isFailure } from "../src/schema/Failure.ts"
import { TimedOut, TransportFailed, UnexpectedAnswer, type WireFailure, withExchange } from "./Failures.ts"

/** What one exchange is given and what is seen of it. */
export interface Seen {
  readonly requestId: string
  /** Access token to send. */
  readonly bearer: string | undefined
  sent: boolean
  answer:
    | { readonly status: number; readonly headers: Readonly<Record<string, string | undefined>> }
    | undefined
}

/** The exchange that this fiber is in; the HTTP client writes into it what it sees. */
export const currentSeen = globalValue("music/client/currentSeen", () =>
  FiberRef.unsafeMake<Seen | undefined>(undefined)
)

/** What the derived client itself can fail with; none of it reaches a caller. */
export type Raw = HttpClientError.HttpClientError | ParseResult.ParseError | HttpApiDecodeError

const retryAfterPattern = /^\d{1,6}$/

// The text after the comma is the rejected value.
const withoutValue = (message: string): string => message.replace(/, actual [\s\S]*$/, "")

/** A request that its own schema refuses: nothing was sent. */
const refused = (error: ParseResult.ParseError): InvalidInput =>
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

const exchangeIn = (seen: Seen) => {
  const retryAfter = seen.answer?.headers["retry-after"]
  return {
    requestId: seen.sent ? (seen.answer?.headers["x-request-id"] ?? seen.requestId) : null,
    ...(retryAfter !== undefined && retryAfterPattern.test(retryAfter)
      ? { retryAfterSeconds: Number(retryAfter) }
      : {})
  }
}

const meaning =
  (seen: Seen) =>
  <E extends Failure | Raw>(error: E | TimedOut): Extract<E, Failure> | InvalidInput | WireFailure => {
    if (error instanceof TimedOut) return error
    // The type checker does not see that a guard picks from E what `Extract` does.
    if (isFailure(error)) return error as Extract<E, Failure>
    if (error instanceof ParseResult.ParseError && !seen.sent) return refused(error)
    // Whatever else there is, the derived client made: no answer at all, or one that does not fit.
    return seen.answer === undefined
      ? new TransportFailed({})
      : new UnexpectedAnswer({ status: seen.answer.status })
  }

/** Runs one exchange for at most `milliseconds`. Its failures know their request id. */
export const attempted =
  (facts: Pick<Seen, "requestId" | "bearer"> & { readonly milliseconds: number }) =>
  <A, E extends Failure | Raw>(
    run: Effect.Effect<A, E>
  ): Effect.Effect<A, Extract<E, Failure> | InvalidInput | WireFailure> =>
    Effect.suspend(() => {
      const { bearer, milliseconds, requestId } = facts
      const seen: Seen = { requestId, bearer, sent: false, answer: undefined }
      return run.pipe(
        Effect.timeoutFail({ duration: milliseconds, onTimeout: () => new TimedOut({}) }),
        Effect.mapError((error) => withExchange(meaning(seen)(error), exchangeIn(seen))),
        Effect.locally(currentSeen, seen)
      )
    })
