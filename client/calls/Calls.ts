/** The service's calls: composed, sent with retries inside a deadline, and reported. */
import * as Effect from "effect/Effect"
import { type Connection, runAttempt } from "./Attempt.ts"
import type { Deadline } from "./Deadline.ts"
import { type AnswerOf, type EndpointName, endpoints, type FailureCodesOf } from "./Endpoints.ts"
import type { ReportEvent } from "../Events.ts"
import {
  type MusicFailure,
  type OptionsProblem,
  toError,
  withKey,
  type UnknownFailure,
  type WireFailure
} from "../failures/Failures.ts"
import { randomUuid } from "./IdempotencyKeys.ts"
import { attemptMillisecondsOf, type MusicClientOptions } from "../Options.ts"
import { findOptionsProblem } from "../OptionsCheck.ts"
import { addressOf, type CallRequest, composeRequest, randomKeyOf } from "./Requests.ts"
import { retryUntil } from "./Retry.ts"
import type { Transport } from "../transport/Transport.ts"
import { packageVersion } from "../Version.ts"

/** Failures of any call beside those that the contract declares for it. */
export type AnyCallFailure = OptionsProblem | WireFailure | UnknownFailure

/** The failures of one call of the contract. */
export type CallFailure<Name extends EndpointName> = MusicFailure<FailureCodesOf<Name>> | AnyCallFailure

/** How a call is repeated. */
interface Repetition {
  readonly deadline: Deadline
  /** Also repeat an `internal` failure, under the same key. */
  readonly uncertain?: boolean
  /** One attempt only. */
  readonly once?: boolean
}

/** What a caller of a known call gives. */
export type CallFacts = Repetition & Omit<CallRequest<never>, "call" | "endpoint">

export interface Calls {
  /** One call of the contract under one request id, with retries inside the deadline. */
  readonly run: <Name extends EndpointName>(
    name: Name,
    facts: CallFacts
  ) => Effect.Effect<AnswerOf<Name>, CallFailure<Name>>
  /** The same for any other call. */
  readonly runAny: <A>(request: CallRequest<A> & Repetition) => Effect.Effect<A, MusicFailure>
}

/** Whether the service may have done what the caller asked for. */
const mayHaveTakenEffect = (failure: MusicFailure): boolean =>
  failure.retryable || failure.code === "internal" || failure.code === "unexpected_answer"

export const makeCalls = (options: MusicClientOptions, transport: Transport, report: ReportEvent): Calls => {
  // With an options problem no call is ever sent.
  const problem = findOptionsProblem(options)
  const address = problem === undefined ? addressOf(options.baseUrl) : ""
  const attemptMilliseconds = attemptMillisecondsOf(options)
  let outdated = false
  const connection: Connection = {
    transport,
    report,
    noteMinVersion: (minVersion) => {
      if (outdated) return
      outdated = true
      report({ type: "outdated", version: options.version ?? packageVersion, minVersion })
    }
  }

  const runAny: Calls["runAny"] = (call) => {
    if (problem !== undefined) return Effect.fail(problem)
    return Effect.flatMap(randomUuid, (uuid) => {
      const requestId = `${options.source}-${uuid}`
      const request = composeRequest(options, address, requestId, call)
      if ("code" in request) return Effect.fail(request)
      const attempts = { call, request, requestId, deadline: call.deadline }
      return retryUntil(
        {
          ...call,
          attemptMilliseconds,
          onRetry: (failure, attempt, pauseMilliseconds) =>
            report({
              type: "retry",
              call: call.call,
              requestId,
              attempt,
              pauseMilliseconds,
              error: toError(failure)
            })
        },
        (attempt, milliseconds) => runAttempt(connection, attempts, { attempt, milliseconds })
      ).pipe(
        Effect.mapError((failure) => {
          const key = randomKeyOf(call)
          return key === undefined || !mayHaveTakenEffect(failure) ? failure : withKey(failure, key)
        })
      )
    })
  }

  return {
    runAny,
    run: (name, facts) =>
      // The table of endpoints relates each name to its answer and its failures.
      runAny({ ...facts, call: name, endpoint: endpoints[name] } as never) as Effect.Effect<never, never>
  }
}
