/** Runs the effects of the client and returns promises and plain values. */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { identity } from "effect/Function"
import * as Option from "effect/Option"
import { type MetadataHolder, noExchange } from "./calls/Attempt.ts"
import { clientFailure, invalidInput, type MusicFailure, toError, withKey } from "./failures/Failures.ts"
import { fetchTransport } from "./transport/FetchTransport.ts"
import { type MusicClientService, makeMusicClient, withHolder } from "./MusicClient.ts"
import type { ClientClock, PromiseClientOptions } from "./Options.ts"
import { isGiven } from "./OptionsCheck.ts"
import { Jitter } from "./calls/Retry.ts"
import type { MusicError, Result, Status } from "./Types.ts"

const clockOf = ({ monotonic, now }: ClientClock): Clock.Clock => {
  const system = Clock.make()
  const nanos = () => BigInt(Math.round(monotonic() * 1_000)) * 1_000n
  return {
    [Clock.ClockTypeId]: Clock.ClockTypeId,
    unsafeCurrentTimeMillis: now,
    unsafeCurrentTimeNanos: nanos,
    currentTimeMillis: Effect.sync(now),
    currentTimeNanos: Effect.sync(nanos),
    sleep: (duration) => system.sleep(duration)
  }
}

/** The caller aborted the call: an interruption, no failure of an effect. */
const abortedFailure = ({ sent }: MetadataHolder): MusicFailure<"aborted"> => {
  const failure = clientFailure("aborted", { requestId: sent?.requestId ?? null })
  return sent?.randomKey === undefined ? failure : withKey(failure, sent.randomKey)
}

const errorOf = (cause: Cause.Cause<MusicFailure>, holder: MetadataHolder): MusicError => {
  const failure = Cause.failureOption(cause)
  if (Option.isSome(failure)) return toError(failure.value)
  return toError(
    Cause.isInterruptedOnly(cause)
      ? abortedFailure(holder)
      : clientFailure("client_defect", { cause: Cause.squash(cause) })
  )
}

const resultOf = <A>(exit: Exit.Exit<A, MusicFailure>, holder: MetadataHolder): Result<A> =>
  Exit.match(exit, {
    onSuccess: (value) => ({ ok: true, value, metadata: holder.metadata }),
    onFailure: (cause) => ({ ok: false, error: errorOf(cause, holder) })
  })

export const toPlainStatus = (status: Status<MusicFailure>): Status =>
  status.state === "unknown" ? { state: "unknown", error: toError(status.error) } : status

export interface PromiseRuntime {
  readonly service: MusicClientService
  /** Runs a synchronous effect. */
  readonly runNow: <A>(effect: Effect.Effect<A, MusicFailure>) => Result<A>
  /** Runs an effect; the promise never rejects. */
  readonly runAsync: <A>(
    effect: Effect.Effect<A, MusicFailure>,
    call: { readonly signal?: AbortSignal | undefined } | undefined
  ) => Promise<Result<A>>
}

// Construction never throws, also when nothing is given.
const nothingGiven: PromiseClientOptions = { baseUrl: "", source: "cli", telemetry: false }

const returnsNumber = (run: unknown): boolean => {
  if (typeof run !== "function") return false
  try {
    return Number.isFinite(run())
  } catch {
    return false
  }
}

/** The problem of an option that only this face has. */
const findProblem = ({
  clock,
  fetch,
  random,
  throwOnError
}: PromiseClientOptions & { readonly throwOnError?: unknown }) => {
  if (isGiven(fetch) && typeof fetch !== "function") return invalidInput("fetch", "must be a function")
  if (isGiven(throwOnError) && typeof throwOnError !== "boolean")
    return invalidInput("throwOnError", "must be true or false")
  if (isGiven(random) && !returnsNumber(random)) return invalidInput("random", "must return a number")
  return isGiven(clock) && !(returnsNumber(clock.now) && returnsNumber(clock.monotonic))
    ? invalidInput("clock", "must have now and monotonic, which return numbers")
    : undefined
}

const wrongSignal = invalidInput("signal", "must be an AbortSignal")

const isSignal = (signal: unknown): boolean =>
  typeof signal === "object" &&
  signal !== null &&
  "addEventListener" in signal &&
  typeof signal.addEventListener === "function"

export const startRuntime = (given: PromiseClientOptions): PromiseRuntime => {
  const options = isGiven(given) ? { ...given } : nothingGiven
  const problem = findProblem(options)
  const { clock, fetch, random } = options
  const provideOptions = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    problem === undefined
      ? effect.pipe(
          isGiven(random) ? Effect.provideService(Jitter, Effect.sync(random)) : identity,
          isGiven(clock) ? Effect.withClock(clockOf(clock)) : identity
        )
      : effect
  const transport = fetchTransport(isGiven(fetch) ? fetch : undefined)
  const service = Effect.runSync(provideOptions(makeMusicClient(options, transport)))
  const prepare = <A>(
    effect: Effect.Effect<A, MusicFailure>,
    refusal: MusicFailure | undefined = problem
  ) => {
    const holder: MetadataHolder = { metadata: noExchange }
    const run = provideOptions(withHolder(refusal === undefined ? effect : Effect.fail(refusal), holder))
    return { run, toResult: (exit: Exit.Exit<A, MusicFailure>) => resultOf(exit, holder) }
  }
  return {
    service,
    runNow: (effect) => {
      const { run, toResult } = prepare(effect)
      return toResult(Effect.runSyncExit(run))
    },
    runAsync: (effect, call) => {
      const signal = call?.signal
      const isWrong = isGiven(signal) && !isSignal(signal)
      if (isGiven(signal) && signal.aborted === true)
        return Promise.resolve({ ok: false, error: toError(clientFailure("aborted")) })
      const { run, toResult } = prepare(effect, isWrong ? wrongSignal : problem)
      const settings = isGiven(signal) && !isWrong ? { signal } : {}
      return Effect.runPromiseExit(run, settings).then(toResult)
    }
  }
}
