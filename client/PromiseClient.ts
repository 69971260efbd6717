/** The client for programs without Effect: promises that never reject, with errors as data. */
import { systemTime } from "./calls/Time.ts"
import { isResult, makeClient, type MusicClient, partsOf, withParts } from "./Client.ts"
import { type Checks, findWrong, isFunction, type PromiseClientOptions } from "./Options.ts"
import { makeSend } from "./Transport.ts"
import type { MusicError, Result } from "./Types.ts"
import { isGiven, tried } from "./Values.ts"
import { toThrown } from "./failures/Failures.ts"

/** The methods of a client, with values instead of results. They reject with a `MusicClientError`. */
export type ThrowingMusicClient = {
  readonly [Name in keyof MusicClient]: MusicClient[Name] extends (
    ...parameters: infer Parameters
  ) => Promise<Result<infer A, infer _>>
    ? (...parameters: Parameters) => Promise<A>
    : MusicClient[Name]
}

const returnsNumber = (run: unknown): boolean => isFunction(run) && Number.isFinite(tried(run))

/** The options that only this face has. */
const checks: Checks = {
  fetch: [isFunction, "must be a function"],
  throwOnError: [(value) => typeof value === "boolean", "must be true or false"],
  random: [returnsNumber, "must return a number"],
  clock: [
    (clock) => ["now", "monotonic"].every((name) => returnsNumber(Reflect.get(Object(clock), name))),
    "must have now and monotonic, which return numbers"
  ]
}

type Method = (...given: ReadonlyArray<unknown>) => Promise<Result<unknown> | object | undefined>

const toThrowing = (client: MusicClient): ThrowingMusicClient => {
  const methods = Object.entries(client).map(([name, run]: [string, Method]) => {
    const throwing: Method = async (...given) => {
      const answer = await run(...given)
      if (!isResult(answer)) return answer
      return answer.ok ? (answer.value as object) : Promise.reject(toThrown(answer.error as MusicError))
    }
    return [name, throwing]
  })
  return withParts(Object.fromEntries(methods), partsOf(client))
}

// Construction never throws, also when nothing is given.
const nothingGiven: PromiseClientOptions = { baseUrl: "", source: "cli", telemetry: false }

/**
 * Makes a client. Makes no call and never throws: a problem of the options fails every call. With `throwOnError: true` the
 * calls return values and reject with a `MusicClientError`; `status` still answers `unknown`.
 */
export const createMusicClient = <Throws extends boolean | undefined = false>(
  given: PromiseClientOptions & {
    /** True: calls return values instead of results, and reject with a `MusicClientError`. */
    readonly throwOnError?: Throws
  }
): Throws extends true ? ThrowingMusicClient : MusicClient => {
  const options: PromiseClientOptions = isGiven(given) ? Object(given) : nothingGiven
  const problem = findWrong(options, checks)
  const { clock, fetch, random } = problem === undefined ? options : nothingGiven
  const client = makeClient(options, {
    problem,
    send: makeSend(fetch),
    time: {
      ...systemTime,
      ...(isGiven(clock) ? { now: () => clock.now(), monotonic: () => clock.monotonic() } : {}),
      ...(isGiven(random) ? { random } : {})
    }
  })
  // The type of the option decides, which the type checker cannot follow.
  return (given?.throwOnError === true ? toThrowing(client) : client) as Throws extends true
    ? ThrowingMusicClient
    : MusicClient
}
