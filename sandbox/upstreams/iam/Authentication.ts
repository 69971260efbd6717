/** The checks before every versioned route: plane, client authentication, rate limit, in this order. */
import type { Seen } from "../Simulator.ts"
import { ErrorResponse, invalidClient, unauthenticated } from "./Errors.ts"
import { lifetimes, sameSecret, sha256, shapes } from "./Identifiers.ts"
import { type App, type Plane, production, type State } from "./Model.ts"
import { headerValues } from "./Requests.ts"

interface Credentials {
  readonly appId: string
  readonly secret: string
}

/** Basic credentials in padded standard base64; `undefined` for anything else. */
const parseBasic = (value: string): Credentials | undefined => {
  const encoded = /^Basic +([A-Za-z0-9+/]+={0,2})$/i.exec(value)?.[1]
  if (encoded === undefined) return undefined
  const bytes = Buffer.from(encoded, "base64")
  if (bytes.toString("base64") !== encoded) return undefined
  const text = bytes.toString("utf8")
  const colon = text.indexOf(":")
  return colon < 0 ? undefined : { appId: text.slice(0, colon), secret: text.slice(colon + 1) }
}

const planeOfApplication = (state: State, request: Seen, selector: string): Plane => {
  const credentials = parseBasic(selector)
  if (credentials === undefined || !shapes.appSecret.test(credentials.secret)) throw unauthenticated()
  const digest = sha256(credentials.secret)
  for (const plane of state.planes.values()) {
    if (plane.environment?.deleted !== false) continue
    for (const app of plane.apps.values()) {
      if (sha256(app.secret) !== digest) continue
      const authorization = headerValues(request, "authorization")
      if (app.appId !== credentials.appId || authorization.length !== 1 || authorization[0] !== selector)
        throw invalidClient()
      return plane
    }
  }
  throw unauthenticated()
}

/**
 * The plane that the application selector names; production without one. A wrong selector never falls back to
 * production (identity-service.md 9). The other selector, an environment's root key, is not simulated.
 */
export const resolvePlane = (state: State, request: Seen): Plane => {
  const [selector, ...others] = headerValues(request, "x-testing-application")
  const rootKeys = headerValues(request, "x-testing-environment-key")
  if (others.length + rootKeys.length > 0) throw unauthenticated()
  if (selector !== undefined) return planeOfApplication(state, request, selector)
  const plane = state.planes.get(production)
  if (plane === undefined) throw new Error("there is no production plane")
  return plane
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
  throw new ErrorResponse(429, "rate_limited", "too many requests", {
    details: { limit: state.rateLimit, remaining: 0, reset_after_seconds: wait, retry_after_seconds: wait },
    headers: {
      "retry-after": String(wait),
      "ratelimit-limit": String(state.rateLimit),
      "ratelimit-remaining": "0",
      "ratelimit-reset": String(wait)
    }
  })
}

/** Basic syntax, then the rate limit of the *claimed* application, then the secret (identity-service.md 5). */
export const authenticateApp = (state: State, plane: Plane, request: Seen): App => {
  const [authorization, ...others] = headerValues(request, "authorization")
  const credentials = authorization === undefined || others.length > 0 ? undefined : parseBasic(authorization)
  if (credentials === undefined || !shapes.appId.test(credentials.appId)) throw invalidClient()
  countRequest(state, plane, credentials.appId, request.path)
  const app = plane.apps.get(credentials.appId)
  if (app === undefined || !sameSecret(app.secret, credentials.secret)) throw invalidClient()
  return app
}
