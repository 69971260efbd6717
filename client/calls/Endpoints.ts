/** The service's calls: method, path and the members of each answer. The contract (Contract.ts) has their types and codes. */
import type { Operations } from "../Contract.ts"
import type { ErrorOf, UnknownError } from "../Types.ts"
import { isText } from "../Values.ts"
import {
  type Check,
  isCheckStates,
  isFlag,
  isTingOutcome,
  isTrue,
  listOf,
  type Members,
  nullable,
  objectOf,
  texts,
  wireMembers
} from "./Answers.ts"

export interface Endpoint<A> {
  readonly method: string
  /** Path with its query, behind the base URL. */
  readonly path: string
  /** `empty`: the call has no answer. `raw`: any success is passed on as a `RawAnswer`. */
  readonly answer: Check<A> | "empty" | "raw"
}

type Route = keyof Operations
/** The answer to a call. The type of a token is the same for all. */
type Answer<R extends Route, A = Operations[R]["answer"]> = A extends { readonly token_type: unknown }
  ? Omit<A, "token_type">
  : A

interface Declared<R extends Route> extends Endpoint<Answer<R>> {
  readonly route: R
}

/** `members` are those of the answer; a call without an answer has none. */
const endpoint = <const R extends Route>(
  route: R,
  ...members: Answer<R> extends void ? [] : [Members<Answer<R>>]
): Declared<R> => {
  const [method = "", path = ""] = route.split(" ")
  const [answer] = members
  return { route, method, path, answer: answer === undefined ? "empty" : objectOf<Answer<R>>(answer) }
}

export const endpoints = {
  login: endpoint("POST /api/v1/auth/login", { ...wireMembers, ting: isTingOutcome }),
  refresh: endpoint("POST /api/v1/auth/refresh", wireMembers),
  logout: endpoint("POST /api/v1/auth/logout"),
  me: endpoint("GET /api/v1/auth/me", {
    ...texts("org_id", "membership_id", "session_id"),
    authenticated: isTrue,
    actor: wireMembers.actor,
    scopes: listOf(isText),
    ting_ready: isFlag,
    testing_environment_id: nullable(isText)
  }),
  subscribe: endpoint("POST /api/v1/ting/subscription", { ...texts("id", "app_id", "for"), active: isFlag }),
  ting: endpoint("POST /api/v1/tings", {
    ...texts("id", "created_at", "key"),
    silent: isFlag,
    replayed: isFlag
  }),
  report: endpoint("POST /api/v1/reports", {
    ...texts("id", "status", "created_at"),
    issue_url: nullable(isText),
    reporter: nullable(isText),
    replayed: isFlag
  }),
  telemetry: endpoint("POST /api/v1/telemetry"),
  iam: endpoint("GET /api/v1/iam", {
    ...texts("app_id", "org_id", "api_version", "iam_url", "ting_url", "version"),
    testing_environment_id: nullable(isText),
    ting_types: listOf(isText),
    scopes: listOf(isText)
  }),
  version: endpoint("GET /api/v1/version", { ...texts("version", "min_cli"), api_versions: listOf(isText) }),
  healthz: endpoint("GET /healthz", texts("status", "service", "version")),
  readyz: endpoint("GET /readyz", { status: isText, checks: isCheckStates })
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
