/**
 * What docs/api.md promises about one request, in its order of checks. It sees what was sent and which credentials are live, and
 * shares no code with the service.
 */
import { createHmac } from "node:crypto"
import { documents, type Operation, operationsByPath } from "./Contract.ts"
import { type Draft, headerOf } from "./Draft.ts"
import { findFault } from "./JsonText.ts"
import type { World } from "./World.ts"

export type Expectation =
  | { readonly kind: "accepted" }
  /** With this code and no other. */
  | { readonly kind: "refused"; readonly code: string; readonly status: number }
  /** `OPTIONS`: 204 with this list. */
  | { readonly kind: "options"; readonly allow: ReadonlySet<string> }
  | { readonly kind: "not allowed"; readonly allow: ReadonlySet<string> }
  /** Any answer that is documented, or also one of the transport. */
  | { readonly kind: "open"; readonly transport: boolean }

const statuses: Readonly<Record<string, number>> = {
  invalid_input: 400,
  idempotency_key_required: 400,
  idempotency_key_invalid: 400,
  unauthenticated: 401,
  slt_rejected: 401,
  testing_secret_invalid: 401,
  webhook_signature_invalid: 401,
  forbidden: 403,
  origin_not_allowed: 403,
  not_found: 404,
  payload_too_large: 413,
  unsupported_media_type: 415
}

const refused = (code: string): Expectation => ({ kind: "refused", code, status: statuses[code] ?? 0 })
const accepted: Expectation = { kind: "accepted" }
const open: Expectation = { kind: "open", transport: false }
const perhapsTransport: Expectation = { kind: "open", transport: true }

/** The bytes of the head as the server counts them lie between two numbers: without and with separators. */
const headSize = (draft: Draft): readonly [number, number] => {
  const size = draft.headers.reduce((sum, [name, value]) => sum + name.length + value.length, 0)
  return [size, size + draft.headers.length * 4 + draft.target.length + 200]
}
const headBound = 16_384

export const pathOf = (target: string): string => {
  const local = target.startsWith("/") ? target : target.replace(/^https?:\/\/[^/?#]*/i, "")
  return local.replace(/[?#][\s\S]*$/, "")
}

/** The methods of a path, as `Allow` lists them; undefined for an unknown path. */
const methodsOf = (path: string): ReadonlySet<string> | undefined => {
  const calls =
    operationsByPath.get(path)?.map(({ method }) => method) ?? (documents.has(path) ? ["GET"] : undefined)
  return calls === undefined
    ? undefined
    : new Set([...calls, ...(calls.includes("GET") ? ["HEAD"] : []), "OPTIONS"])
}

/** The one value of a header without the spaces around it; `several` when it was sent more than once. */
const one = (draft: Draft, name: string): string | "several" | undefined => {
  const values = headerOf(draft, name)
  if (values.length > 1) return "several"
  return values[0]?.replace(/^[ \t]+|[ \t]+$/g, "")
}

const wellFormedTesting = /^ask_[A-Za-z0-9_-]{43}$/
const wellFormedKey = /^[!-~]{16,255}$/
const wellFormedBearer = /^Bearer oat_[!-~]{28,8188}$/
const wellFormedOrganisation = /^[a-z0-9_-]{3,50}$/

/** Step 3. Undefined: the body may be read. */
const checkBodyHeaders = (draft: Draft, operation: Operation): Expectation | undefined => {
  const { body, framing } = draft
  if (operation.body === undefined) return undefined
  const hasBody = framing.kind === "chunked" || (body !== undefined && body.length > 0)
  const type = one(draft, "content-type")
  const coding = one(draft, "content-encoding")
  if (coding !== undefined && coding.toLowerCase() !== "identity")
    return coding === "several" || coding === "" ? open : refused("unsupported_media_type")
  if (type === undefined) {
    if (hasBody && operation.body.required) return refused("unsupported_media_type")
    if (hasBody && framing.kind === "length") return refused("unsupported_media_type")
  } else if (!/^application\/json[ \t]*(?:;[ \t]*charset="?utf-8"?[ \t]*)?$/i.test(type)) {
    // A parameter without meaning may be refused or ignored.
    return type !== "several" && /^application\/json[ \t]*;(?![ \t]*charset)/i.test(type)
      ? open
      : refused("unsupported_media_type")
  }
  return framing.kind === "length" && body !== undefined && body.length > operation.body.maxBytes
    ? refused("payload_too_large")
    : undefined
}

/** Step 4. */
const checkHeaders = (draft: Draft, operation: Operation): Expectation | undefined => {
  if (operation.parameters.has("idempotency-key")) {
    const key = one(draft, "idempotency-key")
    if (key === undefined) return refused("idempotency_key_required")
    if (key === "several" || !wellFormedKey.test(key)) return refused("idempotency_key_invalid")
  }
  const bearer = one(draft, "authorization")
  if (operation.bearer === "required" || (operation.bearer === "optional" && bearer !== undefined)) {
    if (bearer === undefined || !wellFormedBearer.test(bearer)) return refused("unauthenticated")
    const organisation = one(draft, "x-org-id")
    if (
      organisation === undefined ||
      organisation === "several" ||
      !wellFormedOrganisation.test(organisation)
    )
      return refused("invalid_input")
  }
  if (operation.parameters.has("x-testing-environment-key")) {
    const secret = one(draft, "x-testing-environment-key")
    if (secret !== undefined && !wellFormedTesting.test(secret)) return refused("testing_secret_invalid")
  }
  return undefined
}

type Members = Readonly<Record<string, unknown>>

const codePoints = (text: string): number => {
  let count = 0
  for (const _ of text) count += 1
  return count
}

/** The rules of a body that only the prose has. */
const fitsProse = (operation: Operation, body: Members): boolean => {
  switch (operation.id) {
    case "reports.submit": {
      const { context, message } = body
      const length = codePoints(String(message).trim())
      const bytes = Buffer.byteLength(JSON.stringify(context ?? null))
      return length >= 10 && length <= 20_000 && bytes <= 32_768
    }
    case "tings.send": {
      const key = String(body.key)
      return Buffer.byteLength(key) <= 200 && !/\p{Cc}/u.test(key)
    }
    default:
      return true
  }
}

/** Step 5. The body as a value, or why it is refused. */
const readBody = (
  draft: Draft,
  operation: Operation
): { readonly refusal: Expectation } | { readonly value: Members } => {
  const body = draft.body ?? Buffer.alloc(0)
  if (operation.body === undefined) return { value: {} }
  if (body.length > operation.body.maxBytes) return { refusal: refused("payload_too_large") }
  if (body.length === 0 && !operation.body.required) return { value: {} }
  if (one(draft, "content-type") === undefined && body.length > 0)
    return { refusal: refused("unsupported_media_type") }
  if (body.length === 0 || findFault(body) !== undefined) return { refusal: refused("invalid_input") }
  const value: unknown = JSON.parse(body.toString())
  // The schema is that of an object.
  return operation.body.validate(value) && fitsProse(operation, value as Members)
    ? { value: value as Members }
    : { refusal: refused("invalid_input") }
}

const isRepositorysPull = (pr: unknown): boolean => {
  if (pr === undefined || pr === null) return true
  const text = String(pr)
  return (
    URL.canParse(text) &&
    new URL(text).hostname === "github.com" &&
    new URL(text).pathname.toLowerCase().startsWith("/harbor/music/pull/")
  )
}

const tingTypes: ReadonlyArray<unknown> = ["music.trigger.fired", "music.trigger.expired"]
const clientTables: ReadonlyArray<unknown> = [
  "musicclidaemon",
  "musicfrontendanalytics",
  "musicfrontendevents"
]
/** Bytes of an outgoing ting, without the fields that the service adds. */
const tingBound = 262_144

/** Step 9. */
const useCase = (draft: Draft, operation: Operation, body: Members, world: World): Expectation => {
  const { session, slt } = draft
  switch (operation.id) {
    case "auth.login":
      if (body.slt === slt) return accepted
      // In a testing plane an SLT may be a test public id.
      return draft.plane === "testing" ? open : refused("slt_rejected")
    case "auth.refresh":
      return body.refresh_token === session?.refresh ? accepted : refused("unauthenticated")
    case "tings.send": {
      if (!String(body.key).startsWith(`${session?.actor}/`)) return refused("invalid_input")
      if (!tingTypes.includes(body.type)) return refused("not_found")
      const size = Buffer.byteLength(JSON.stringify(body))
      if (size > tingBound) return refused("payload_too_large")
      return size > tingBound - 500 ? open : accepted
    }
    case "reports.submit":
      return isRepositorysPull(body.pr) ? accepted : refused("invalid_input")
    case "telemetry.accept": {
      const origin = one(draft, "origin")
      const fitting = clientTables.includes(body.table)
      const fromDaemon = body.table === "musicclidaemon"
      if (origin !== undefined && (origin !== world.webOrigin || fromDaemon))
        return fitting ? refused("origin_not_allowed") : open
      return fitting ? accepted : refused("invalid_input")
    }
    default:
      return accepted
  }
}

/** IAM's own rules for a delivery, as far as they do not depend on the content (identity-service.md 11.2). */
const signatureFits = (draft: Draft, world: World): boolean => {
  const { production } = world.upstreams.seeded
  const [eventId, timestamp, version, signature] = [
    "x-silicon-iam-event-id",
    "x-silicon-iam-timestamp",
    "x-silicon-iam-key-version",
    "x-silicon-iam-signature"
  ].map((name) => one(draft, name))
  const hmac = createHmac("sha256", production.webhookSecret)
    .update(`${timestamp}.`)
    .update(draft.body ?? "")
    .digest("hex")
  return (
    /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(eventId ?? "") &&
    /^[1-9]\d*$/.test(timestamp ?? "") &&
    Math.abs(Number(timestamp) - Date.now() / 1_000) < 300 &&
    version === String(production.webhookKeyVersion) &&
    signature === `v1=${hmac}`
  )
}

const changesBody = (draft: Draft): boolean =>
  draft.body === undefined || !draft.mutations.every((name) => !name.startsWith("body:"))

/** Levels of brackets outside of texts. */
const depthOf = (text: string): number => {
  let [depth, deepest, quoted] = [0, 0, false]
  for (let at = 0; at < text.length; at += 1) {
    const character = text.charAt(at)
    if (quoted && character === "\\") at += 1
    else if (character === '"') quoted = !quoted
    else if (!quoted && "[{".includes(character)) deepest = Math.max(deepest, ++depth)
    else if (!quoted && "]}".includes(character)) depth -= 1
  }
  return deepest
}

const delivery = (draft: Draft, world: World): Expectation => {
  if ((draft.body?.length ?? 0) > (draft.operation?.body?.maxBytes ?? 0)) return refused("payload_too_large")
  if (depthOf(draft.body?.toString("latin1") ?? "") > 64) return refused("invalid_input")
  if (!signatureFits(draft, world)) return refused("webhook_signature_invalid")
  if (changesBody(draft)) return open
  return (draft.body ?? "").includes(one(draft, "x-silicon-iam-event-id") ?? "")
    ? accepted
    : refused("webhook_signature_invalid")
}

/** Steps 7 and 8: the credentials are well-formed. */
const checkCredentials = (draft: Draft, operation: Operation, world: World): Expectation | undefined => {
  const { session } = draft
  let plane = "production"
  if (operation.parameters.has("x-testing-environment-key")) {
    const secret = one(draft, "x-testing-environment-key")
    if (secret !== undefined && secret !== world.testingSecret) return refused("testing_secret_invalid")
    if (secret !== undefined) plane = "testing"
  }
  const bearer = one(draft, "authorization")
  if (operation.bearer !== "none" && bearer !== undefined) {
    if (session === undefined || bearer !== `Bearer ${session.access}` || session.plane !== plane)
      return refused("unauthenticated")
    if (one(draft, "x-org-id") !== session.organisation) return refused("forbidden")
    return undefined
  }
  // The tokens of a body belong to the plane of the request.
  const namesPlane = operation.id === "auth.login" || operation.id === "auth.refresh"
  return plane === draft.plane || !namesPlane ? undefined : open
}

/** What the answer to a finished request must be. */
export const expectationOf = (draft: Draft, world: World): Expectation => {
  const [least, most] = headSize(draft)
  if (draft.malformed === "perhaps") return perhapsTransport
  if (draft.malformed === "refused") return most > headBound ? perhapsTransport : refused("invalid_input")
  if (least > headBound) return { kind: "refused", code: "invalid_input", status: 431 }
  if (most > headBound) return perhapsTransport
  if (draft.method === "CONNECT") return refused("not_found")
  if (draft.version === "1.1" && headerOf(draft, "host").length !== 1) return refused("invalid_input")
  const path = pathOf(draft.target)
  const allow = methodsOf(path)
  if (draft.method === "OPTIONS" && (allow !== undefined || path === "*"))
    return { kind: "options", allow: allow ?? new Set(["GET", "HEAD", "POST", "OPTIONS"]) }
  if (allow === undefined) return refused("not_found")
  if (!allow.has(draft.method)) return { kind: "not allowed", allow }
  const method = draft.method === "HEAD" ? "GET" : draft.method
  const operation = operationsByPath.get(path)?.find((each) => each.method === method)
  if (operation === undefined) return documents.has(path) ? open : refused("not_found")
  const early = checkBodyHeaders(draft, operation) ?? checkHeaders(draft, operation)
  if (early !== undefined) return early
  if (operation.parameters.has("x-silicon-iam-signature")) return draft.open ? open : delivery(draft, world)
  const body = readBody(draft, operation)
  if ("refusal" in body) return body.refusal
  if (draft.open) return open
  return checkCredentials(draft, operation, world) ?? useCase(draft, operation, body.value, world)
}
