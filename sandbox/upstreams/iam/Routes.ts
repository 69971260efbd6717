/** From a request to its route and back: public routes, versions, planes, the table of routes, the common headers. */
import type { Reply, Seen } from "../Simulator.ts"
import { catalogue, directoryEntry, testingContext } from "./Directory.ts"
import { exchange } from "./OboProof.ts"
import { authenticateApp, checkVersion, resolvePlane, supportedVersions } from "./Gate.ts"
import { shapes, uuidAt } from "./Grammar.ts"
import { introspect, legacyMemberships, revoke } from "./Introspection.ts"
import type { State } from "./Model.ts"
import { tokens } from "./Tokens.ts"
import { verify } from "./Verify.ts"
import { type Call, headerValues, notFound, Refusal, refusalReply, validationFailed } from "./Wire.ts"

const build = { build: "4.0.0", commit: "abc123" } as const

interface Route {
  readonly method: "GET" | "POST"
  /** Below `/api/v1`; `*` is one variable segment. */
  readonly path: string
  readonly handle: (call: Call) => Reply
}

/** All of these are within reach of the application selector (identity-service.md 9). */
const routes: ReadonlyArray<Route> = [
  { method: "POST", path: "/app-auth/tokens", handle: tokens },
  { method: "POST", path: "/oauth/introspect", handle: introspect },
  { method: "POST", path: "/oauth/revoke", handle: revoke },
  { method: "POST", path: "/obo-access/exchanges", handle: exchange },
  { method: "POST", path: "/obo-access/verify", handle: verify },
  { method: "GET", path: "/obo-access/applications/*/endpoints", handle: catalogue },
  { method: "GET", path: "/application-directory/*", handle: directoryEntry },
  { method: "GET", path: "/application/testing-context", handle: testingContext }
]

const decode = (segment: string): string => {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

/** The variable segments of a path that fits the pattern, or `undefined`. */
const matchPath = (pattern: string, path: string): ReadonlyArray<string> | undefined => {
  const wanted = pattern.split("/")
  const given = path.split("/")
  if (wanted.length !== given.length) return undefined
  if (!wanted.every((segment, index) => segment === "*" || segment === given[index])) return undefined
  return given.filter((_, index) => wanted[index] === "*").map(decode)
}

const methodNotAllowed = (allow: string) =>
  new Refusal(405, "method_not_allowed", "the method is not allowed here", { headers: { allow } })

const requireGet = (method: string): void => {
  if (method !== "GET") throw methodNotAllowed("GET")
}

const negotiate = (request: Seen): Reply => {
  const headers = { vary: "Silicon-IAM-Supported-API-Versions" }
  const supported = supportedVersions(request)
  if (supported === undefined || supported === null)
    throw validationFailed({
      field: "silicon-iam-supported-api-versions",
      message: "must list 1 to 16 distinct versions"
    })
  if (!supported.includes("v1"))
    throw new Refusal(406, "api_version_not_acceptable", "no supported API version is acceptable", {
      headers,
      details: { supported_versions: ["v1"] }
    })
  return {
    status: 200,
    headers: { ...headers, "silicon-iam-api-version": "v1" },
    body: {
      service: "silicon-iam",
      selected_api_version: "v1",
      supported_api_versions: ["v1"],
      ...build
    }
  }
}

const versioned = (state: State, request: Seen, requestId: string, path: string): Reply => {
  const method = request.method === "HEAD" ? "GET" : request.method
  const fitting = routes.flatMap((route) => {
    const params = matchPath(route.path, path)
    return params === undefined ? [] : [{ route, params }]
  })
  const found = fitting.find(({ route }) => route.method === method)
  const plane = resolvePlane(state, request, found !== undefined)
  if (path === "/version") {
    requireGet(method)
    return { status: 200, body: { service: "silicon-iam", api_version: "v1", ...build } }
  }
  if (found === undefined) {
    if (fitting.length === 0) throw notFound()
    throw methodNotAllowed(fitting.map(({ route }) => route.method).join(", "))
  }
  const app = authenticateApp(state, plane, request)
  return found.route.handle({ state, request, requestId, plane, app, params: found.params })
}

const dispatch = (state: State, request: Seen, requestId: string): Reply => {
  const method = request.method === "HEAD" ? "GET" : request.method
  if (request.path === "/healthz" || request.path === "/readyz") {
    requireGet(method)
    return { status: 200, body: { ok: true } }
  }
  if (request.path === "/api/version") {
    requireGet(method)
    return negotiate(request)
  }
  const parts = /^\/api\/(v[0-9]+)(\/.*)$/.exec(request.path)
  if (parts === null) throw notFound()
  checkVersion(state, request, parts[1] ?? "")
  return versioned(state, request, requestId, parts[2] ?? "")
}

/** Answers every route but the control ones; a refusal becomes the envelope, a defect `internal_error`. */
export const makeRouter = (state: State) => {
  const ids = new WeakMap<Seen, string>()

  /** The caller's id when it is one UUID, else a new one; the same for every look at one request. */
  const requestIdOf = (request: Seen): string => {
    const known = ids.get(request)
    if (known !== undefined) return known
    const [given, ...others] = headerValues(request, "x-request-id")
    const id =
      given !== undefined && others.length === 0 && shapes.uuid.test(given) ? given : uuidAt(state.now())
    ids.set(request, id)
    return id
  }

  const answer = (request: Seen): Reply => {
    const requestId = requestIdOf(request)
    try {
      return dispatch(state, request, requestId)
    } catch (error) {
      const refusal =
        error instanceof Refusal ? error : new Refusal(500, "internal_error", "an internal error occurred")
      return refusalReply(refusal, requestId)
    }
  }

  return {
    requestIdOf,
    handle: (request: Seen): Reply => {
      const reply = answer(request)
      return {
        ...reply,
        headers: {
          "cache-control": "no-store",
          "x-content-type-options": "nosniff",
          "referrer-policy": "no-referrer",
          ...(/^\/api\/v1\//.test(request.path) ? { "silicon-iam-api-version": "v1" } : {}),
          ...(legacyMemberships(request) ? { "silicon-iam-membership-format": "uuid-legacy" } : {}),
          ...reply.headers
        }
      }
    }
  }
}
