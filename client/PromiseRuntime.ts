/** Runs the effects of the client and returns promises and plain values. */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { identity } from "effect/Function"
import * as Option from "effect/Option"
import { clientFailure, invalidInput, type MusicFailure, toError } from "./failures/Failures.ts"
import { fetchTransport } from "./transport/FetchTransport.ts"
import { type MusicClientService, makeMusicClient, withMetadata } from "./MusicClient.ts"
import type { ClientClock, PromiseClientOptions } from "./Options.ts"
import { Jitter } from "./calls/Retry.ts"
import type { Metadata, MusicError, Result, Status } from "./Types.ts"

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

const errorOf = (cause: Cause.Cause<MusicFailure>): MusicError => {
  const failure = Cause.failureOption(cause)
  if (Option.isSome(failure)) return toError(failure.value)
  return toError(clientFailure(Cause.isInterruptedOnly(cause) ? "aborted" : "client_defect"))
}

const resultOf = <A>(exit: Exit.Exit<readonly [A, Metadata], MusicFailure>): Result<A> =>
  Exit.match(exit, {
    onSuccess: ([value, metadata]) => ({ ok: true, value, metadata }),
    onFailure: (cause) => ({ ok: false, error: errorOf(cause) })
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
    call: { readonly signal?: AbortSignal } | undefined
  ) => Promise<Result<A>>
}

// Programs without a type checker may pass null or nothing; construction never throws.
const isGiven = <A>(part: A | null | undefined): part is A => part !== undefined && part !== null
const nothingGiven: PromiseClientOptions = { baseUrl: "", source: "cli", telemetry: false }

/** The problem of an option that only this face has. */
const findProblem = ({ clock, fetch, random }: PromiseClientOptions) => {
  if (isGiven(fetch) && typeof fetch !== "function") return invalidInput("fetch", "must be a function")
  if (isGiven(random) && typeof random !== "function") return invalidInput("random", "must be a function")
  return isGiven(clock) && !(typeof clock.now === "function" && typeof clock.monotonic === "function")
    ? invalidInput("clock", "must have now and monotonic")
    : undefined
}

const wrongSignal = invalidInput("signal", "must be an AbortSignal")

const isSignal = (signal: unknown): boolean =>
  typeof signal === "object" &&
  signal !== null &&
  "addEventListener" in signal &&
  typeof signal.addEventListener === "function"

export const startRuntime = (given: PromiseClientOptions): PromiseRuntime => {
  const options = isGiven(given) ? given : nothingGiven
  const problem = findProblem(options)
  const { clock, fetch, random } = options
  const provideOptions = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    problem === undefined
      ? effect.pipe(
          isGiven(random) ? Effect.provideService(Jitter, Effect.sync(random)) : identity,
          isGiven(clock) ? Effect.withClock(clockOf(clock)) : identity
        )
      : effect
  const run = <A>(effect: Effect.Effect<A, MusicFailure>) =>
    provideOptions(withMetadata(problem === undefined ? effect : Effect.fail(problem)))
  const transport = fetchTransport(isGiven(fetch) ? fetch : undefined)
  const service = Effect.runSync(provideOptions(makeMusicClient(options, transport)))
  return {
    service,
    runNow: (effect) => resultOf(Effect.runSyncExit(run(effect))),
    runAsync: (effect, call) => {
      const signal = call?.signal
      if (!isGiven(signal)) return Effect.runPromiseExit(run(effect)).then(resultOf)
      return isSignal(signal)
        ? Effect.runPromiseExit(run(effect), { signal }).then(resultOf)
        : Effect.runPromiseExit(run(Effect.fail(wrongSignal))).then(resultOf<never>)
    }
  }
}

interface Page {
  readonly document?: unknown
  readonly addEventListener?: (type: string, listener: () => void) => void
  readonly removeEventListener?: (type: string, listener: () => void) => void
}

/** Calls `run` when the browser hides the page; returns the function that removes the listener. */
export const onPageHide = (run: () => void): (() => void) => {
  // The same source compiles without DOM types.
  const page = globalThis as unknown as Page
  if (page.document === undefined) return () => undefined
  page.addEventListener?.("pagehide", run)
  return () => page.removeEventListener?.("pagehide", run)
}
