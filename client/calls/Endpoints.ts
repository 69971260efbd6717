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
    authenticated: isTrue,
    actor: wireMembers.actor,
    org_id: isText,
    membership_id: isText,
    session_id: isText,
    scopes: listOf(isText),
    ting_ready: isFlag,
    testing_environment_id: nullable(isText)
  }),
  subscribe: endpoint("POST /api/v1/ting/subscription", {
    id: isText,
    app_id: isText,
    for: isText,
    active: isFlag
  }),
  ting: endpoint("POST /api/v1/tings", {
    id: isText,
    created_at: isText,
    key: isText,
    silent: isFlag,
    replayed: isFlag
  }),
  report: endpoint("POST /api/v1/reports", {
    id: isText,
    status: isText,
    issue_url: nullable(isText),
    reporter: nullable(isText),
    created_at: isText,
    replayed: isFlag
  }),
  telemetry: endpoint("POST /api/v1/telemetry"),
  iam: endpoint("GET /api/v1/iam", {
    app_id: isText,
    org_id: isText,
    api_version: isText,
    iam_url: isText,
    ting_url: isText,
    testing_environment_id: nullable(isText),
    ting_types: listOf(isText),
    scopes: listOf(isText),
    version: isText
  }),
  version: endpoint("GET /api/v1/version", {
    version: isText,
    api_versions: listOf(isText),
    min_cli: isText
  }),
  healthz: endpoint("GET /healthz", { status: isText, service: isText, version: isText }),
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
