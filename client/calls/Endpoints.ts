/** The service's calls by method and path. The contract (Contract.ts) has the types and shapes of their answers, and their codes. */
import { type Operations, shapes } from "../Contract.ts"
import type { ErrorOf, UnknownError } from "../Types.ts"
import { fits, isUsable, type Shape } from "./Answers.ts"

export interface Endpoint<A> {
  readonly method: string
  /** Path with its query, behind the base URL. */
  readonly path: string
  /** Whether a parsed value is an answer. `empty`: the call has none. `raw`: any success is passed on as a `RawAnswer`. */
  readonly answer: ((value: unknown) => value is A) | "empty" | "raw"
}

type Route = keyof Operations
type Answer<R extends Route> = Operations[R]["answer"]

interface Declared<R extends Route> extends Endpoint<Answer<R>> {
  readonly route: R
}

/** `isRight`: what the shape of an answer does not say. */
const endpoint = <const R extends Route>(
  route: R,
  isRight: (answer: Answer<R>) => boolean = () => true
): Declared<R> => {
  const [method = "", path = ""] = route.split(" ")
  const shape = (shapes as Partial<Record<Route, Shape>>)[route]
  const isAnswer = (value: unknown): value is Answer<R> =>
    fits(shape ?? "", value) && isRight(value as Answer<R>)
  return { route, method, path, answer: shape === undefined ? "empty" : isAnswer }
}

export const endpoints = {
  login: endpoint("POST /api/v1/auth/login", isUsable),
  refresh: endpoint("POST /api/v1/auth/refresh", isUsable),
  logout: endpoint("POST /api/v1/auth/logout"),
  me: endpoint("GET /api/v1/auth/me"),
  subscribe: endpoint("POST /api/v1/ting/subscription"),
  ting: endpoint("POST /api/v1/tings"),
  report: endpoint("POST /api/v1/reports"),
  telemetry: endpoint("POST /api/v1/telemetry"),
  iam: endpoint("GET /api/v1/iam"),
  version: endpoint("GET /api/v1/version"),
  healthz: endpoint("GET /healthz"),
  readyz: endpoint("GET /readyz")
}

export type EndpointName = keyof typeof endpoints
type RouteOf<Name extends EndpointName> = (typeof endpoints)[Name]["route"]
export type AnswerOf<Name extends EndpointName> = Answer<RouteOf<Name>>
/** The codes that the contract declares for a call. */
export type FailureCodesOf<Name extends EndpointName> = Operations[RouteOf<Name>]["codes"]

/** The errors of any call, also of one that sends nothing. */
export type LocalError = ErrorOf<"invalid_input" | "testing_secret_invalid" | "aborted" | "client_defect">

/** The errors of the session's store. */
export type StoreError = ErrorOf<"store_failed" | "unsupported">

/** The errors of a call without a session: those that the contract declares for it, and those of sending and receiving. */
export type CallError<Name extends EndpointName> =
  | LocalError
  | ErrorOf<FailureCodesOf<Name> | "transport_failed" | "timed_out" | "unexpected_answer">
  | UnknownError

/** The errors of a call with a session: it may need a refresh. */
export type SignedError<Name extends EndpointName> =
  | CallError<Name | "refresh">
  | StoreError
  | ErrorOf<"not_logged_in" | "logged_out">
