/** Ting's errors (notification-service.md 8), its field formats (5) and the checks before the credentials (2, steps 1 to 8). */
import {
  headerValues,
  isRecord,
  type JsonObject,
  parseJson,
  Refusal,
  type Reply,
  type Seen
} from "../Contract.ts"

const codes = {
  invalid_input: [400, "correct the request; do not retry it"],
  test_context_required: [400, "send both testing headers or neither"],
  authentication_required: [401, "send a proof or a session"],
  invalid_proof: [401, "obtain a new proof for these bytes"],
  proof_expired: [401, "obtain a new proof; keep the body and the key"],
  proof_consumed: [401, "obtain a new proof; keep the body and the key"],
  session_expired: [401, "obtain a new testing context"],
  permission_denied: [403, "check the application, the actor and the plane"],
  recipient_not_registered: [403, "ask the recipient to register"],
  required_delivery_not_enabled: [403, "send an ordinary ting"],
  not_found: [404, "check the identifier"],
  idempotency_conflict: [409, "use a new key for new content"],
  payload_too_large: [413, "shorten the content"],
  temporarily_rate_limited: [429, "wait, then use a new proof and the same key"],
  dependency_unavailable: [503, "retry later with a new proof and the same key"],
  proof_verification_uncertain: [503, "retry with a new proof"]
} as const satisfies Readonly<Record<string, readonly [number, string]>>

type TingCode = keyof typeof codes

/** The reply of a code. */
export const errorReply = (
  code: TingCode,
  message: string = code.replaceAll("_", " "),
  headers: Readonly<Record<string, string>> = {}
): Reply => {
  const [status, hint] = codes[code]
  return {
    status,
    headers,
    body: { error: { code, message, hint, retryable: status === 429 || status === 503 } }
  }
}

export const refuse = (code: TingCode, message?: string): Refusal => new Refusal(errorReply(code, message))

// biome-ignore lint/suspicious/noControlCharactersInRegex: these texts may not contain control characters
const controls = /[\u0000-\u001f\u007f-\u009f]/

const boundedText =
  (bytes: number) =>
  (text: string): boolean =>
    text.length > 0 && Buffer.byteLength(text) <= bytes && !controls.test(text)

const type = /^[a-z][a-z0-9_-]{0,79}\.[a-z][a-z0-9_-]*\.[a-z][a-z0-9_-]*$/

/** By field. */
const formats = {
  app_id: (text: string) => /^[a-z][a-z0-9_-]{0,79}$/.test(text),
  for: (text: string) => /^(?:c:[a-z0-9_-]{3,30}|si:[a-z0-9_-]{3,50})$/.test(text),
  org_id: boundedText(255),
  type: (text: string) => text.length <= 255 && type.test(text),
  key: boundedText(200)
}

type Field = keyof typeof formats

/** A string field that fits. An absent field or another kind of value is `invalid_input`. */
export const textOf = (fields: JsonObject, name: Field): string => {
  const value = fields[name]
  if (typeof value !== "string" || !formats[name](value))
    throw refuse("invalid_input", `${name} is not acceptable`)
  return value
}

/** An object field; `{}` when it is absent and optional. */
export const objectOf = (fields: JsonObject, name: "data" | "metadata"): JsonObject => {
  const value = name === "metadata" && !Object.hasOwn(fields, name) ? {} : fields[name]
  if (!isRecord(value)) throw refuse("invalid_input", `${name} must be an object`)
  return value
}

/** Refuses unknown fields and missing required ones. */
export const exactly = (
  fields: JsonObject,
  required: ReadonlyArray<string>,
  optional: ReadonlyArray<string>
): void => {
  for (const name of Object.keys(fields))
    if (!required.includes(name) && !optional.includes(name))
      throw refuse("invalid_input", "the body has an unknown field")
  for (const name of required)
    if (!Object.hasOwn(fields, name)) throw refuse("invalid_input", `${name} is required`)
}

const bodyLimit = 1_048_576
const tingLimit = 262_144

/** The value of a header; `undefined` when it is absent. A repeated header is `invalid_input`. */
export const single = (request: Seen, name: string): string | undefined => {
  const [value, ...others] = headerValues(request, name)
  if (others.length > 0) throw refuse("invalid_input", `${name} was sent more than once`)
  return value
}

/** The fields of an acceptable request. Of strings that are present only the format counts: presence is checked after the bearer. */
export const readRequest = (request: Seen): JsonObject => {
  const { body } = request
  if (request.headers.has("origin")) throw refuse("permission_denied", "browsers are not allowed")
  if (body.length > bodyLimit) throw refuse("payload_too_large")
  if (body.length > 0 && single(request, "content-type")?.split(";")[0] !== "application/json")
    throw refuse("invalid_input", "the content type must be application/json")
  if (request.path === "/v1/tings" && body.length > tingLimit) throw refuse("payload_too_large")
  const fields = body.length === 0 ? {} : parseJson(body)
  if (!isRecord(fields)) throw refuse("invalid_input", "the body must be a JSON object")
  for (const name of ["app_id", "for", "org_id", "type"] as const)
    if (typeof fields[name] === "string") textOf(fields, name)
  return fields
}

/** The bearer, 1 to 8192 bytes after a case-sensitive `Bearer `. */
export const readBearer = (request: Seen): string => {
  const [value = "", ...others] = headerValues(request, "authorization")
  const bearer = value.startsWith("Bearer ") ? value.slice("Bearer ".length) : ""
  if (others.length > 0 || bearer === "" || bearer.length > 8_192) throw refuse("authentication_required")
  return bearer
}
