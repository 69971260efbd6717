/** Reading a request, its client and its idempotency key, and IAM's errors (identity-service.md 3, 4, 5 and 9). */
import {
  canonical,
  headerValues,
  isRecord,
  type JsonObject,
  parseJson,
  Refusal,
  type Reply,
  type Seen,
  sha256
} from "../Contract.ts"
import {
  type App,
  lifetimes,
  type Plane,
  planeOf,
  production,
  sameSecret,
  shapes,
  type State
} from "./Model.ts"

/** IAM's envelope of an error, thrown before any state changes. `bare`: of a version, without the request's id (identity-service.md 1.3). */
export const refuse = (
  status: number,
  code: string,
  message: string,
  more: {
    readonly details?: unknown
    readonly headers?: Readonly<Record<string, string>>
    readonly bare?: boolean
  } = {}
): Refusal => {
  const details = more.details === undefined ? {} : { details: more.details }
  const error = { code, message, ...details, ...(more.bare === true ? {} : { request_id: "" }) }
  return new Refusal({ status, headers: { ...more.headers }, body: { error } })
}

/** Names the request in the envelope of an error. */
export const withRequestId = (reply: Reply, requestId: string): Reply => {
  const { error } = isRecord(reply.body) ? reply.body : {}
  return isRecord(error) && error.request_id === ""
    ? { ...reply, body: { error: { ...error, request_id: requestId } } }
    : reply
}

export const invalidClient = (message = "client authentication failed") =>
  refuse(401, "invalid_client", message, {
    headers: { "www-authenticate": 'Basic realm="silicon-iam"' }
  })

const unauthenticated = () =>
  refuse(401, "unauthenticated", "authentication is required", {
    headers: { "www-authenticate": "Bearer" }
  })

export const notFound = () => refuse(404, "not_found", "the resource was not found")
export const invalidRequest = (message: string) => refuse(400, "invalid_request", message)
export const invalidGrant = (message = "the grant is invalid, expired or revoked") =>
  refuse(400, "invalid_grant", message)

export const validationFailed = (...fields: ReadonlyArray<string>) =>
  refuse(422, "validation_failed", "the request has invalid fields", {
    details: { fields: fields.map((field) => ({ field, message: "is not acceptable" })) }
  })

const rejected = (status: number, message: string) => refuse(status, "request_rejected", message)

const preconditionRequired = (precondition: string) =>
  refuse(428, "precondition_required", `the ${precondition} header is required`, {
    details: { precondition }
  })

/** One authenticated call of an application. */
export interface Call {
  readonly state: State
  readonly request: Seen
  readonly requestId: string
  readonly plane: Plane
  readonly app: App
}

/** Token and proof answers also forbid caching for HTTP/1.0 caches (identity-service.md 1.2). */
export const secretHeaders = { pragma: "no-cache" } as const

const bodyLimit = 65_536

const requireBody = (request: Seen, contentType: RegExp): Buffer => {
  const [essence = ""] = (headerValues(request, "content-type")[0] ?? "").split(";")
  if (!contentType.test(essence.trim())) throw rejected(415, "the content type is not supported")
  if (request.body.length > bodyLimit) throw refuse(413, "payload_too_large", "the request body is too large")
  return request.body
}

/** Reads a form. A missing required field or a repeated known field is a 422. */
export const readForm = (
  request: Seen,
  required: ReadonlyArray<string>,
  optional: ReadonlyArray<string>
): ((name: string) => string | undefined) => {
  const body = requireBody(request, /^application\/x-www-form-urlencoded$/i)
  const form = new URLSearchParams(body.toString("utf8"))
  for (const name of required) if (!form.has(name)) throw rejected(422, `missing form field ${name}`)
  for (const name of [...required, ...optional])
    if (form.getAll(name).length > 1) throw rejected(422, `duplicate form field ${name}`)
  return (name) => form.get(name) ?? undefined
}

/** Reads a JSON body. Malformed JSON is a 400. */
export const readJson = (request: Seen): unknown => {
  const json = parseJson(requireBody(request, /^application\/(json|[^/;]+\+json)$/i))
  if (json === undefined) throw rejected(400, "the body is not valid JSON")
  return json
}

/** Reads typed fields of a JSON object. A missing, mistyped or unknown field is a 422. */
export const readFields = (value: unknown, known: ReadonlyArray<string>) => {
  if (!isRecord(value)) throw rejected(422, "the value must be an object")
  for (const name of Object.keys(value))
    if (!known.includes(name)) throw rejected(422, `unknown field ${name}`)
  const text = (name: string): string => {
    const field = value[name]
    if (typeof field !== "string") throw rejected(422, `field ${name} must be a string`)
    return field
  }
  const object = (name: string): JsonObject => {
    const field = value[name]
    if (!isRecord(field)) throw rejected(422, `field ${name} must be an object`)
    return field
  }
  return {
    text,
    object,
    optionalText: (name: string): string | null => ((value[name] ?? null) === null ? null : text(name))
  }
}

/** `X-Org-ID` is not supported on the on-behalf-of routes (identity-service.md 3). */
export const refuseOrgHeader = (request: Seen): void => {
  if (headerValues(request, "x-org-id").length > 0)
    throw refuse(400, "unsupported_header", "X-Org-ID is not supported on this route")
}

/** A header that must be there once, in its form. */
export const oneHeader = (request: Seen, name: string, shape: RegExp, malformed: () => Refusal): string => {
  const [value, ...others] = headerValues(request, name.toLowerCase())
  if (value === undefined) throw preconditionRequired(name)
  if (others.length > 0 || !shape.test(value)) throw malformed()
  return value
}

export const requireIdempotencyKey = (request: Seen): string =>
  oneHeader(request, "Idempotency-Key", shapes.idempotencyKey, () => validationFailed("idempotency_key"))

/** Basic credentials in padded standard base64; `undefined` for anything else. */
const parseBasic = (value: string) => {
  const encoded = /^Basic +([A-Za-z0-9+/]+={0,2})$/i.exec(value)?.[1] ?? ""
  const bytes = Buffer.from(encoded, "base64")
  if (bytes.toString("base64") !== encoded) return undefined
  const text = bytes.toString("utf8")
  const colon = text.indexOf(":")
  return colon < 0 ? undefined : { appId: text.slice(0, colon), secret: text.slice(colon + 1) }
}

/**
 * The plane that the application selector names; production without one. A wrong selector never falls back to
 * production (identity-service.md 9). The other selector, an environment's root key, is not simulated.
 */
export const resolvePlane = (state: State, request: Seen): Plane => {
  const [selector, ...others] = headerValues(request, "x-testing-application")
  const rootKeys = headerValues(request, "x-testing-environment-key")
  if (others.length + rootKeys.length > 0) throw unauthenticated()
  if (selector === undefined) return planeOf(state, production)
  const credentials = parseBasic(selector)
  if (credentials === undefined || !shapes.appSecret.test(credentials.secret)) throw unauthenticated()
  for (const plane of state.planes.values()) {
    if (plane.environment?.deleted !== false) continue
    const app = [...plane.apps.values()].find(({ secret }) => sameSecret(secret, credentials.secret))
    if (app === undefined) continue
    const authorization = headerValues(request, "authorization")
    if (app.appId !== credentials.appId || authorization.length !== 1 || authorization[0] !== selector)
      throw invalidClient()
    return plane
  }
  throw unauthenticated()
}

const countRequest = ({ now, rateLimit: limit }: State, plane: Plane, key: string): void => {
  const found = plane.rates.get(key)
  const isSame = found !== undefined && now() < found.startedAt + lifetimes.rateWindow
  const startedAt = isSame ? found.startedAt : now()
  const count = isSame ? found.count + 1 : 1
  plane.rates.set(key, { startedAt, count })
  if (count <= limit) return
  const wait = Math.max(1, Math.ceil((startedAt + lifetimes.rateWindow - now()) / 1_000))
  throw rateLimited(limit, wait)
}

export const rateLimited = (limit: number, wait: number) =>
  refuse(429, "rate_limited", "too many requests", {
    details: { limit, remaining: 0, reset_after_seconds: wait, retry_after_seconds: wait },
    headers: {
      "retry-after": String(wait),
      "ratelimit-limit": String(limit),
      "ratelimit-remaining": "0",
      "ratelimit-reset": String(wait)
    }
  })

/** Basic syntax, then the rate limit of the *claimed* application, then the secret (identity-service.md 5). */
export const authenticateApp = (state: State, plane: Plane, request: Seen): App => {
  const [authorization = "", ...others] = headerValues(request, "authorization")
  const credentials = others.length > 0 ? undefined : parseBasic(authorization)
  if (credentials === undefined || !shapes.appId.test(credentials.appId)) throw invalidClient()
  countRequest(state, plane, `${credentials.appId} ${request.path}`)
  const app = plane.apps.get(credentials.appId)
  if (app === undefined || !sameSecret(app.secret, credentials.secret)) throw invalidClient()
  return app
}

export interface Outcome {
  readonly reply: Reply
  /** How long the reply is replayed, milliseconds from the record's creation. */
  readonly window: number
  /** Default: always, within the window. */
  readonly live?: () => boolean
}

const conflict = (code: string, message: string) => refuse(409, `idempotency_${code}`, message)

/**
 * Runs an operation once per key, for 24 h per (plane, application, route, key). An error that `run` throws leaves the key free. An
 * outcome that it returns, also a negative one, is stored and replayed (identity-service.md 4).
 */
export const once = (
  { app, plane, request, state }: Call,
  key: string,
  payload: unknown,
  run: () => Outcome
): Reply => {
  const now = state.now()
  const lease = state.held.get(key)
  if (lease !== undefined && now < lease)
    throw conflict("in_progress", "the first request with this key is still running")

  const id = canonical([app.appId, request.path, key])
  const digest = sha256(canonical(payload))
  const record = plane.idempotency.get(id)
  if (record !== undefined && now < record.createdAt + lifetimes.record) {
    if (record.digest !== digest) throw conflict("conflict", "the key was used with another payload")
    if (now >= record.replayUntil || !record.live())
      throw conflict("response_expired", "the stored result is no longer available")
    return { ...record.reply, headers: { ...record.reply.headers, "idempotency-replayed": "true" } }
  }
  const { live = () => true, reply, window } = run()
  plane.idempotency.set(id, { digest, createdAt: now, replayUntil: now + window, reply, live })
  return reply
}
