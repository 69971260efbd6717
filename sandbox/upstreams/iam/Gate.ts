/** What stands before every versioned route: version, plane, client authentication, rate limit, in this order. */
import type { Seen } from "../Simulator.ts"
import { activeApp } from "./Authority.ts"
import { lifetimes, sameSecret, sha256, shapes } from "./Grammar.ts"
import { type App, type Plane, production, type State } from "./Model.ts"
import { forbidden, headerValues, invalidClient, Refusal, unauthenticated } from "./Wire.ts"

/** `undefined` when absent, `null` when malformed (identity-service.md 1.3). */
export const supportedVersions = (request: Seen): ReadonlyArray<string> | null | undefined => {
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

/** Refuses a path or header of another version. */
export const checkVersion = (state: State, request: Seen, version: string): void => {
  if (state.sunset.has(version))
    throw new Refusal(410, "api_version_sunset", "this API version was retired", { bare: true })
  if (version !== "v1")
    throw new Refusal(404, "unknown_api_version", "this API version does not exist", { bare: true })
  const supported = supportedVersions(request)
  if (supported !== undefined && supported?.includes(version) !== true)
    throw new Refusal(406, "api_version_not_supported", "the client does not support this API version", {
      bare: true
    })
}

interface Credentials {
  readonly appId: string
  readonly secret: string
}

/** Basic credentials in the standard alphabet, padded; `undefined` when they are anything else. */
const parseBasic = (value: string): Credentials | undefined => {
  const encoded = /^Basic +([A-Za-z0-9+/]+={0,2})$/i.exec(value)?.[1]
  if (encoded === undefined) return undefined
  const bytes = Buffer.from(encoded, "base64")
  if (bytes.toString("base64") !== encoded) return undefined
  const text = bytes.toString("utf8")
  const colon = text.indexOf(":")
  return colon < 0 ? undefined : { appId: text.slice(0, colon), secret: text.slice(colon + 1) }
}

const testingPlanes = (state: State): ReadonlyArray<Plane> =>
  [...state.planes.values()].filter((plane) => plane.environment?.deleted === false)

const planeOfRootKey = (state: State, key: string): Plane => {
  const plane = shapes.rootKey.test(key)
    ? testingPlanes(state).find((candidate) => sameSecret(candidate.environment?.rootKey ?? "", key))
    : undefined
  if (plane === undefined) throw unauthenticated()
  return plane
}

const planeOfApplication = (state: State, request: Seen, selector: string, reachable: boolean): Plane => {
  const credentials = parseBasic(selector)
  if (credentials === undefined || !shapes.appSecret.test(credentials.secret)) throw unauthenticated()
  const digest = sha256(credentials.secret)
  for (const plane of testingPlanes(state))
    for (const app of plane.apps.values()) {
      if (sha256(app.secret) !== digest) continue
      if (app.appId !== credentials.appId) throw invalidClient()
      const authorization = headerValues(request, "authorization")
      // A user's bearer reaches only the scoped read API, which is not simulated.
      if (!reachable || authorization.some((value) => /^Bearer /i.test(value))) throw forbidden()
      if (authorization.length !== 1 || authorization[0] !== selector) throw invalidClient()
      return plane
    }
  throw unauthenticated()
}

/** The plane that the request selects; nothing falls back to production (identity-service.md 9). */
export const resolvePlane = (state: State, request: Seen, reachable: boolean): Plane => {
  const rootKeys = headerValues(request, "x-testing-environment-key")
  const selectors = headerValues(request, "x-testing-application")
  const [rootKey] = rootKeys
  const [selector] = selectors
  if (rootKey === undefined && selector === undefined) {
    const plane = state.planes.get(production)
    if (plane === undefined) throw new Error("there is no production plane")
    return plane
  }
  if (!state.testingAvailable)
    throw new Refusal(503, "service_unavailable", "testing is not available", {
      headers: { "retry-after": "5" }
    })
  if (rootKeys.length + selectors.length !== 1) throw unauthenticated()
  return rootKey === undefined
    ? planeOfApplication(state, request, selector ?? "", reachable)
    : planeOfRootKey(state, rootKey)
}

const countRequest = (state: State, plane: Plane, appId: string, path: string): void => {
  const key = `${appId} ${path}`
  const now = state.now()
  const found = plane.rates.get(key)
  const bucket =
    found !== undefined && now < found.startedAt + lifetimes.rateWindow ? found : { startedAt: now, count: 0 }
  plane.rates.set(key, bucket)
  bucket.count += 1
  if (bucket.count <= state.rateLimit) return
  const wait = Math.max(1, Math.ceil((bucket.startedAt + lifetimes.rateWindow - now) / 1000))
  throw new Refusal(429, "rate_limited", "too many requests", {
    details: { limit: state.rateLimit, remaining: 0, reset_after_seconds: wait, retry_after_seconds: wait },
    headers: {
      "retry-after": String(wait),
      "ratelimit-limit": String(state.rateLimit),
      "ratelimit-remaining": "0",
      "ratelimit-reset": String(wait)
    }
  })
}

/** Basic syntax, then the rate limit by the *claimed* application, then the secret (identity-service.md 5). */
export const authenticateApp = (state: State, plane: Plane, request: Seen): App => {
  const [authorization, ...others] = headerValues(request, "authorization")
  const credentials = authorization === undefined || others.length > 0 ? undefined : parseBasic(authorization)
  if (credentials === undefined || !shapes.appId.test(credentials.appId)) throw invalidClient()
  countRequest(state, plane, credentials.appId, request.path)
  const app = activeApp(plane, credentials.appId)
  if (app === undefined || !sameSecret(app.secret, credentials.secret)) throw invalidClient()
  return app
}
