/** One cell: the failure, the request, what came of it, and the same request when the failure is over. */
import * as Effect from "effect/Effect"
import type { InMemoryResponse } from "../../support/InMemoryServer.ts"
import type { Failure } from "./Failures.ts"
import { detailOf, type OperationName, operations } from "./Operations.ts"
import { type PathName, paths, type UpstreamName } from "./Paths.ts"
import { type Server, startServer } from "./Server.ts"
import type { World } from "./World.ts"

/** How an observation is written, and so how the table is written: `503 dependency_unavailable, 5 s ×3; spent → 401 unauthenticated`. */
export interface Observation {
  readonly text: string
  /** What no cell may show: a false envelope, a redirect that was followed, something done twice. */
  readonly problems: ReadonlyArray<string>
  readonly requests: number
}

const address = "192.0.2.1"
/** Seconds between two probes of introspection (api.md, refresh). */
const probePause = 1.1
/** Seconds. Ting's own limit is not remembered, and a token would expire in an hour. */
const longestWait = 60

interface ErrorBody {
  readonly error: {
    readonly code: string
    readonly retryable: boolean
    readonly message: string
    readonly hint: string
    readonly details?: { readonly dependency?: string }
  }
}

const isSuccess = ({ status }: InMemoryResponse) => status >= 200 && status < 300

const errorOf = (answer: InMemoryResponse): ErrorBody["error"] | undefined =>
  // Every error is the envelope; `problemsOf` says where it is not.
  isSuccess(answer) ? undefined : (JSON.parse(answer.text) as ErrorBody).error

const outcomeOf = (name: OperationName, answer: InMemoryResponse): string => {
  const error = errorOf(answer)
  const seconds = answer.headers["retry-after"]
  return `${answer.status}${error === undefined ? detailOf(name, answer) : ` ${error.code}`}${seconds === undefined ? "" : `, ${seconds} s`}`
}

/** Codes that promise that a repetition may end otherwise (api.md, "Errors"). */
const retryable: ReadonlyArray<string> = [
  "idempotency_in_progress",
  "rate_limited",
  "temporarily_rate_limited",
  "dependency_unavailable",
  "overloaded"
]

const envelopeProblems = (answer: InMemoryResponse, upstream: UpstreamName): ReadonlyArray<string> => {
  const error = errorOf(answer)
  if (error === undefined) return []
  const named = error.details?.dependency
  const names = ["dependency_unavailable", "dependency_misconfigured"].includes(error.code)
  return [
    ...(error.retryable === retryable.includes(error.code) ? [] : [`retryable is ${error.retryable}`]),
    ...(error.message !== "" && error.hint !== "" ? [] : ["no message or no hint"]),
    ...(!names || named === upstream ? [] : [`details.dependency is ${named}`]),
    ...(answer.status === 429 && answer.headers["retry-after"] === undefined
      ? ["429 without Retry-After"]
      : [])
  ]
}

export interface CellRequest {
  readonly operation: OperationName
  readonly upstream: UpstreamName
  /** The paths that fail. */
  readonly failing: ReadonlyArray<PathName>
  readonly failure: Failure
  /** How many calls fail: all until the request is answered, or the first. */
  readonly times: number
  readonly name: string
}

const injure = (world: World, { failing, failure, times, upstream }: CellRequest): void => {
  const { injury } = failure
  if (injury.kind === "skew") world.setSkew(upstream, injury.millis)
  else if (injury.kind === "refuse") for (const path of failing) world.refuse(path, times)
  else for (const path of failing) world.fail(path, injury.fault, times)
}

/** The order in which an operation calls its paths. */
const order: ReadonlyArray<PathName> = [
  "context",
  "tokens",
  "introspect",
  "revoke",
  "endpoints",
  "proof",
  "register",
  "send"
]

/** A request that failed at a path goes no further. A login fetches the list of endpoints beside its first call. */
const calledBehind = (
  calls: ReadonlyArray<readonly [PathName, number]>,
  { failing, operation }: CellRequest
): ReadonlyArray<string> => {
  const last = Math.max(...failing.map((path) => order.indexOf(path)))
  return calls
    .filter(([path]) => order.indexOf(path) > last && !(operation === "login" && path === "endpoints"))
    .map(([path]) => `${path} was called all the same`)
}

export const observe = (world: World, cell: CellRequest): Effect.Effect<Observation> =>
  Effect.gen(function* () {
    const server = yield* Effect.orDie(startServer(world))
    const { failing, name, operation, upstream } = cell
    const ask = (request: Parameters<Server["send"]>[1]) =>
      world.passUntilDone(Effect.promise(() => server.send(address, request)))
    const subject = yield* operations[operation]({ world, server, name })
    world.heal()
    injure(world, cell)
    world.resetCalls()
    const answer = yield* ask(subject.request)
    const calls = Object.keys(paths)
      .map((path) => path as PathName)
      .filter((path) => world.calls(path) > 0)
      .map((path) => [path, world.calls(path)] as const)
    const state = yield* subject.state
    const followed = world.elsewhere.seen.length
    world.heal()
    // A client waits as long as it was asked to. A success with a part that failed does not say how long: a minute, as IAM asks at most.
    const seconds = Number(answer.headers["retry-after"] ?? 0)
    const least = detailOf(operation, answer) === "" ? probePause : 61
    yield* world.pass(Math.max(Math.min(longestWait, seconds), least) * 1_000)
    const again = yield* ask(subject.request)
    const twice = isSuccess(again) ? yield* subject.problems(again) : []
    world.forgetRequests()
    const endsWell = isSuccess(again) && detailOf(operation, again) === ""
    return {
      text: `${outcomeOf(operation, answer)} ${callsText(calls, failing)}${state === "" ? "" : `; ${state}`}${endsWell ? "" : ` → ${outcomeOf(operation, again)}`}`,
      problems: [
        ...envelopeProblems(answer, upstream),
        ...(isSuccess(answer) ? [] : calledBehind(calls, cell)),
        ...(followed > 0 ? [`${followed} redirects were followed`] : []),
        ...twice
      ],
      requests: 2
    }
  }).pipe(Effect.scoped)

/** The calls to the path that fails, then those to others that were made more than once. */
const callsText = (
  calls: ReadonlyArray<readonly [PathName, number]>,
  failing: ReadonlyArray<PathName>
): string => {
  const own = calls.filter(([path]) => failing.includes(path)).map(([, count]) => count)
  const others = calls.filter(([path, count]) => !failing.includes(path) && count > 1)
  const total = own.reduce((sum, count) => sum + count, 0)
  return `×${total}${others.length === 0 ? "" : ` (${others.map(([path, count]) => `${path} ×${count}`).join(", ")})`}`
}
