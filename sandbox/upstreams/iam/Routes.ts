/** The route table, version negotiation and the headers of every answer. */
import type { Reply, Seen } from "../Simulator.ts"
import { catalogue, testingContext } from "./ApplicationInfo.ts"
import { authenticateApp, resolvePlane } from "./Authentication.ts"
import { ErrorResponse, errorReply, notFound, validationFailed } from "./Errors.ts"
import { shapes, uuidAt } from "./Identifiers.ts"
import { introspect, revoke } from "./Introspection.ts"
import type { State } from "./Model.ts"
import { exchange } from "./OboProof.ts"
import { type Call, headerValues } from "./Requests.ts"
import { tokens } from "./Tokens.ts"
import { verify } from "./Verify.ts"

interface Route {
  readonly method: "GET" | "POST"
  /** Below `/api/v1`. A group is the variable segment. */
  readonly path: RegExp
  readonly handle: (call: Call) => Reply
}

const routes: ReadonlyArray<Route> = [
  { method: "POST", path: /^\/app-auth\/tokens$/, handle: tokens },
  { method: "POST", path: /^\/oauth\/introspect$/, handle: introspect },
  { method: "POST", path: /^\/oauth\/revoke$/, handle: revoke },
  { method: "POST", path: /^\/obo-access\/exchanges$/, handle: exchange },
  { method: "POST", path: /^\/obo-access\/verify$/, handle: verify },
  { method: "GET", path: /^\/obo-access\/applications\/([^/]+)\/endpoints$/, handle: catalogue },
  { method: "GET", path: /^\/application\/testing-context$/, handle: testingContext }
]

/** The versions that the client supports: `undefined` when absent, `null` when malformed (identity-service.md 1.3). */
const supportedVersions = (request: Seen): ReadonlyArray<string> | null | undefined => {
  const [value, ...others] = headerValues(request, "silicon-iam-supported-api-versions")
  if (value === undefined) return undefined
  const versions = value.split(",").map((version) => version.trim())
  const wellFormed =
    others.length === 0 &&
    value.length <= 255 &&
    versions.length <= 16 &&
    new Set(versions).size === versions.length &&
    versions.every((version) => /^v[1-9][0-9]*$/.test(version))
  return wellFormed ? versions : null
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
    throw new ErrorResponse(406, "api_version_not_acceptable", "no supported API version is acceptable", {
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
      build: "4.0.0",
      commit: "abc123"
    }
  }
}

const dispatch = (state: State, request: Seen, requestId: string): Reply => {
  if (request.path === "/api/version" && request.method === "GET") return negotiate(request)
  const path = /^\/api\/v1(\/.*)$/.exec(request.path)?.[1]
  if (path === undefined) throw notFound()
  const supported = supportedVersions(request)
  if (supported !== undefined && supported?.includes("v1") !== true)
    throw new ErrorResponse(
      406,
      "api_version_not_supported",
      "the client does not support this API version",
      {
        bare: true
      }
    )
  const plane = resolvePlane(state, request)
  const fitting = routes.filter((route) => route.path.test(path))
  const found = fitting.find((route) => route.method === request.method)
  if (found === undefined && fitting.length === 0) throw notFound()
  if (found === undefined)
    throw new ErrorResponse(405, "method_not_allowed", "the method is not allowed here", {
      headers: { allow: fitting.map(({ method }) => method).join(", ") }
    })
  const app = authenticateApp(state, plane, request)
  return found.handle({ state, request, requestId, plane, app, param: found.path.exec(path)?.[1] ?? "" })
}

/** Answers every route except the controls. A thrown `ErrorResponse` becomes the envelope, a defect `internal_error`. */
export const makeRouter = (state: State) => {
  const ids = new WeakMap<Seen, string>()

  /** The caller's id if it is one UUID, otherwise a new one; constant for one request. */
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
      return errorReply(
        error instanceof ErrorResponse
          ? error
          : new ErrorResponse(500, "internal_error", "an internal error occurred"),
        requestId
      )
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
          ...(request.path.startsWith("/api/v1/") ? { "silicon-iam-api-version": "v1" } : {}),
          ...reply.headers
        }
      }
    }
  }
}
