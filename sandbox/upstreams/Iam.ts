/**
 * A simulated Silicon IAM: the routes that an application's backend calls, with the contract's check orders, codes and lifetimes
 * (`contracts/identity-service.md`). The clock is injected; randomness is `node:crypto`.
 */
import {
  type Contract,
  handleBy,
  headerOf,
  headerValues,
  isRecord,
  type Now,
  parseJson,
  type Refusal,
  type Reply,
  type Routes,
  type Seen
} from "./Contract.ts"
import { makeControls } from "./iam/Controls.ts"
import { makePlane, production, shapes, type State, uuidAt } from "./iam/Model.ts"
import { catalogue, exchange, testingContext, verify } from "./iam/Proofs.ts"
import {
  authenticateApp,
  type Call,
  notFound,
  rateLimited,
  refuse,
  resolvePlane,
  validationFailed,
  withRequestId
} from "./iam/Requests.ts"
import { introspect, revoke, tokens } from "./iam/Tokens.ts"
import { type Listening, type Replying, type Simulator, startSimulator } from "./Simulator.ts"

export {
  type IamControls,
  type SeededEnvironment,
  type SeededIam,
  seedEnvironment,
  seedIam
} from "./iam/Controls.ts"
export { type IamEvent, type SignedWebhook, signWebhook } from "./iam/Events.ts"
export { type AccessToken, type Family, production, type Session } from "./iam/Model.ts"
export { signExchange } from "./iam/Proofs.ts"

const fault = ({ reply }: Refusal): Replying => {
  const common = { "cache-control": "no-store", "silicon-iam-api-version": "v1" }
  return { kind: "reply", reply: { ...reply, headers: { ...common, ...reply.headers } } }
}

/** IAM's own error answers as faults, for `fail` (identity-service.md 3). */
export const iamFaults = {
  rateLimited: (seconds: number) => fault(rateLimited(120, seconds)),
  internalError: () => fault(refuse(500, "internal_error", "an internal error occurred")),
  serviceUnavailable: () =>
    fault(refuse(503, "service_unavailable", "try again later", { headers: { "retry-after": "5" } }))
} as const

const v1 = "/api/v1"
/** A call of which the application is not authenticated yet: an unknown route is refused before. */
type Claimed = Omit<Call, "app">

const operations: Routes<Call> = {
  [`POST ${v1}/app-auth/tokens`]: tokens,
  [`POST ${v1}/oauth/introspect`]: introspect,
  [`POST ${v1}/oauth/revoke`]: revoke,
  [`POST ${v1}/obo-access/exchanges`]: exchange,
  [`POST ${v1}/obo-access/verify`]: verify,
  [`GET ${v1}/obo-access/applications/{app_id}/endpoints`]: (call, appId = "") => catalogue(call, appId),
  [`GET ${v1}/application/testing-context`]: testingContext
}

const routes: Routes<Claimed> = Object.fromEntries(
  Object.entries(operations).map(([name, run]) => [
    name,
    (call: Claimed, ...parts: ReadonlyArray<string>) =>
      run({ ...call, app: authenticateApp(call.state, call.plane, call.request) }, ...parts)
  ])
)

/** The versions that the client supports: `undefined` when absent, `null` when malformed (identity-service.md 1.3). */
const supportedVersions = (request: Seen): ReadonlyArray<string> | null | undefined => {
  const [value, ...others] = headerValues(request, "silicon-iam-supported-api-versions")
  if (value === undefined) return undefined
  const versions = value.split(",").map((version) => version.trim())
  const isWellFormed =
    others.length === 0 &&
    value.length <= 255 &&
    versions.length <= 16 &&
    new Set(versions).size === versions.length &&
    versions.every((version) => /^v[1-9][0-9]*$/.test(version))
  return isWellFormed ? versions : null
}

const negotiate = (request: Seen): Reply => {
  const headers = { vary: "Silicon-IAM-Supported-API-Versions" }
  const supported = supportedVersions(request) ?? null
  if (supported === null) throw validationFailed("silicon-iam-supported-api-versions")
  const versions = ["v1"]
  if (!supported.includes("v1"))
    throw refuse(406, "api_version_not_acceptable", "no supported API version is acceptable", {
      headers,
      details: { supported_versions: versions }
    })
  return {
    status: 200,
    headers: { ...headers, "silicon-iam-api-version": "v1" },
    body: {
      service: "silicon-iam",
      selected_api_version: "v1",
      supported_api_versions: versions,
      build: "4.0.0"
    }
  }
}

const read = (state: State, request: Seen, requestId: string): Claimed => {
  if (!request.path.startsWith(`${v1}/`)) throw notFound()
  const supported = supportedVersions(request)
  if (supported !== undefined && supported?.includes("v1") !== true)
    throw refuse(406, "api_version_not_supported", "the client does not support this API version", {
      bare: true
    })
  return { state, request, requestId, plane: resolvePlane(state, request) }
}

const ofVersion = handleBy(
  { "GET /api/version": negotiate },
  (request) => request,
  () => {
    throw notFound()
  }
)

const otherwise = (_: Claimed, allowed: ReadonlyArray<string>): never => {
  if (allowed.length === 0) throw notFound()
  const headers = { allow: allowed.join(", ") }
  throw refuse(405, "method_not_allowed", "the method is not allowed here", { headers })
}

interface IamOptions {
  /** Milliseconds since the epoch. */
  readonly now: Now
  /** Requests per 60 s for one (application, path) of a plane; default 120 (identity-service.md 1), `Infinity` for none. */
  readonly rateLimit?: number
}

/** An empty IAM without a socket; `seedIam(iam.controls)` fills it. */
export const makeIam = ({ now, rateLimit = 120 }: IamOptions) => {
  const planes = new Map([[production, makePlane(production, undefined)]])
  const state: State = { now, rateLimit, planes, minted: [], held: new Map() }
  const ids = new WeakMap<Seen, string>()

  /** The caller's id if it is one UUID, otherwise a new one; constant for one request. */
  const requestIdOf = (request: Seen): string => {
    const given = headerOf(request, "x-request-id") ?? ""
    const id = ids.get(request) ?? (shapes.uuid.test(given) ? given : uuidAt(now()))
    ids.set(request, id)
    return id
  }

  const answer = handleBy(routes, (request) => read(state, request, requestIdOf(request)), otherwise)
  const controls = makeControls(state)
  const control: Routes<Seen> = {
    "POST /_sandbox/slt": ({ body }) => {
      const given = body.length === 0 ? {} : parseJson(body)
      if (!isRecord(given)) throw new Error("the body must be a JSON object")
      const { actor = "si:deejay", plane = production } = given
      const slt = controls.mintSlt(String(plane), { appId: "music", actor: String(actor) })
      return { status: 201, body: { slt } }
    }
  }
  return {
    controls,
    control,
    /** Every credential ever made, so that a test can search logs and databases for leaks. */
    minted: state.minted,
    routes: Object.keys(routes),
    /** Answers every route of the contract. */
    handle: (request: Seen): Reply => {
      const reply = request.path === "/api/version" ? ofVersion(request) : answer(request)
      const common = {
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        ...(request.path.startsWith(`${v1}/`) ? { "silicon-iam-api-version": "v1" } : {})
      }
      const headers = { ...common, ...reply.headers }
      return { ...withRequestId(reply, requestIdOf(request)), headers }
    },
    /** The headers of every response, beside those of the reply. */
    decorate: (request: Seen): Readonly<Record<string, string>> => ({ "x-request-id": requestIdOf(request) })
  }
}

export type IamSimulator = Simulator & Omit<ReturnType<typeof makeIam>, keyof Contract>

/** Starts an empty IAM on loopback. */
export const startIam = async (options: IamOptions & Listening): Promise<IamSimulator> => {
  const iam = makeIam(options)
  return { ...iam, ...(await startSimulator({ ...options, ...iam })) }
}
