/** The laws of one answer: the document, docs/api.md and RFC 9110, without the code of the service. */
import { securityHeadersOfEveryAnswer } from "../../support/SecurityHeaders.ts"
import { headersOf, type RawAnswer } from "../../world/RawHttp.ts"
import { canaryPart, findCanaries } from "./Canary.ts"
import { codes, documents, methodsOf, type Operation, operationOf, pathOf } from "./Contract.ts"
import { type Draft, valuesIn } from "./Requests.ts"

interface Envelope {
  readonly code: string
  readonly message: string
  readonly hint: string
  readonly retryable: boolean
  readonly details?: { readonly fields?: ReadonlyArray<{ readonly path: string; readonly problem: string }> }
}

export const jsonOf = ({ body }: RawAnswer): unknown => {
  try {
    return JSON.parse(body.toString())
  } catch {
    return undefined
  }
}

/** The envelope of an error; undefined when the body has another form. */
export const envelopeOf = (answer: RawAnswer): Envelope | undefined => {
  const value = jsonOf(answer)
  if (typeof value !== "object" || value === null || !("error" in value)) return undefined
  // Every field is checked below.
  const error = value.error as Envelope
  const isText = (part: unknown) => typeof part === "string" && part.trim() !== ""
  return typeof error === "object" &&
    error !== null &&
    [error.code, error.message, error.hint].every(isText) &&
    typeof error.retryable === "boolean" &&
    Object.keys(error).every((name) => ["code", "message", "hint", "retryable", "details"].includes(name))
    ? error
    : undefined
}

/** Calls that a quota counts, once their credentials are judged, whatever the answer. */
const ofCounted = ["slt_rejected", "idempotency_conflict", "rate_limited"]
const exposed = "X-Request-Id, Retry-After, RateLimit, RateLimit-Policy, X-Music-Min-Cli"
const allowedToSend =
  "Authorization, Content-Type, Idempotency-Key, X-Org-ID, X-Request-Id, X-Testing-Environment-Key, X-Music-Telemetry, X-Music-Source, X-Music-Client-Version, traceparent"

/** Headers that HTTP itself adds (RFC 9110, RFC 9112). */
const ofHttp = ["date", "connection", "keep-alive", "content-length", "content-type"]
/** Headers of the Fetch standard's CORS, on paths under /api/v1/ (docs/api.md, "Documents and CORS"). */
const ofCors = ["vary", "access-control-allow-origin", "access-control-expose-headers"]
const ofOptions = [
  "allow",
  "access-control-allow-methods",
  "access-control-allow-headers",
  "access-control-max-age"
]
const ofDocuments = [
  "etag",
  "cache-control",
  "vary",
  "content-encoding",
  "cross-origin-opener-policy",
  "allow"
]
/** Of an answer that belongs to no documented call: an unknown path, a wrong method, a malformed request. */
const ofErrors = ["x-request-id", "cache-control", "x-music-min-cli"]

const credential = /(?:oat|ort|oac|obo|ask)_[A-Za-z0-9_-]{16,}/
/** A lower version than `MUSIC_MIN_CLI`, and one that surely is none. */
const lower = /^0\.(?:0\.\d+|1\.0-[a-z.0-9]+)$/
const notLower = /^(?:[1-9]\d*\.\d+\.\d+|0\.1\.0(?:\+.*)?)$/
const keptRequestId = /^[A-Za-z0-9._-]{8,128}$/

interface Judged {
  readonly draft: Draft
  readonly answer: RawAnswer
  readonly path: string
  /** The call that answers. */
  readonly operation: Operation | undefined
  /** No request ever reached the service. */
  readonly isUnread: boolean
}

const sentOnce = (draft: Draft, name: string): string | undefined => {
  const values = valuesIn(draft, name).map((value) => value.replace(/^[ \t]+|[ \t]+$/g, ""))
  return values.length === 1 ? values[0] : undefined
}

const allowedHeaders = ({ answer: { status }, operation, path }: Judged): ReadonlySet<string> => {
  const cors = path.startsWith("/api/v1/") ? ofCors : []
  const own = operation?.responses.get(status)?.headers
  if (own !== undefined) return new Set([...ofHttp, ...cors, ...own])
  if (documents.includes(path)) return new Set([...ofHttp, ...ofDocuments, ...ofErrors])
  const more = status === 405 ? ["allow"] : status === 204 ? ofOptions : []
  return new Set([...ofHttp, ...cors, ...ofErrors, ...more])
}

/** Only documented headers, each once, and those of every answer. */
const headerLaw = function* (judged: Judged): Generator<string> {
  const { answer, path } = judged
  const allowed = allowedHeaders(judged)
  for (const [name, value] of securityHeadersOfEveryAnswer) {
    const isPage = name === "content-security-policy" && documents.includes(path)
    const [given] = headersOf(answer, name)
    if (isPage ? given === undefined : given !== value) yield `${name} is ${given} with ${answer.status}`
  }
  const seen = new Set<string>()
  for (const [name] of answer.headers) {
    if (!allowed.has(name) && !securityHeadersOfEveryAnswer.has(name))
      yield `undocumented header ${name} with ${answer.status}`
    if (seen.has(name)) yield `header ${name} twice`
    seen.add(name)
  }
}

/** Request id, minimum version, CORS and rate limits where docs/api.md promises them. */
const promisedLaw = function* ({ answer, draft, isUnread, operation, path }: Judged): Generator<string> {
  const [requestId = ""] = headersOf(answer, "x-request-id")
  const sent = sentOnce(draft, "x-request-id") ?? ""
  const isKept = keptRequestId.test(sent) && !credential.test(sent)
  const isFresh = /^req_[0-9a-f]{32}$/.test(requestId)
  if (
    !(isKept ? requestId === sent || (isUnread && isFresh) : isFresh) &&
    draft.message.verbatim === undefined
  )
    yield `x-request-id is ${JSON.stringify(requestId)}`
  if (isUnread) return
  const inApi = path.startsWith("/api/v1/")
  const versions = valuesIn(draft, "x-music-client-version")
  const version = sentOnce(draft, "x-music-client-version") ?? ""
  const isLower = lower.test(version) && inApi
  const minimum = headersOf(answer, "x-music-min-cli")
  if ((versions.length === 0 || isLower || notLower.test(version)) && (minimum.length === 1) !== isLower)
    yield `x-music-min-cli is ${JSON.stringify(minimum)} for version ${JSON.stringify(version)}`
  if (!inApi) return
  const origins = valuesIn(draft, "origin")
  const isAllowed = sentOnce(draft, "origin") === allowedOrigin
  const isPreflight =
    isAllowed && answer.status === 204 && valuesIn(draft, "access-control-request-method").length > 0
  const due: ReadonlyArray<readonly [string, string | undefined]> = [
    ["vary", "Origin"],
    // Of several origins, the server perhaps reads one.
    ...(origins.length > 1
      ? []
      : ([
          ["access-control-allow-origin", isAllowed ? allowedOrigin : undefined],
          ["access-control-expose-headers", isAllowed ? exposed : undefined]
        ] as const)),
    ...(isPreflight && draft.message.method === "OPTIONS"
      ? ([
          ["access-control-allow-methods", headersOf(answer, "allow")[0]],
          ["access-control-allow-headers", allowedToSend]
        ] as const)
      : [])
  ]
  for (const [name, value] of due) {
    const [given] = headersOf(answer, name)
    if (given !== value) yield `${name} is ${given} instead of ${value} with ${answer.status}`
  }
  const isCounted = answer.status < 300 || ofCounted.includes(envelopeOf(answer)?.code ?? "")
  if (operation === undefined || !isCounted) return
  for (const name of ["ratelimit", "ratelimit-policy"])
    if (headersOf(answer, name).length !== 1) yield `${answer.status} without ${name}`
}
const allowedOrigin = "http://localhost:5173"

const envelopeLaw = function* ({ answer, draft }: Judged): Generator<string> {
  const { status } = answer
  if (status < 400 || draft.message.method === "HEAD") return
  const envelope = envelopeOf(answer)
  if (envelope === undefined) {
    yield `the body of ${status} is no envelope: ${answer.body.toString().slice(0, 200)}`
    return
  }
  const { code, retryable } = envelope
  const row = codes.get(code)
  if (row === undefined) yield `undocumented code ${code}`
  else {
    if (!row.statuses.has(status)) yield `${code} with status ${status}`
    if (row.retryable !== retryable) yield `${code} has retryable ${retryable}`
  }
  const [type] = headersOf(answer, "content-type")
  if (type !== "application/json") yield `an error of type ${type}`
  if (!headersOf(answer, "cache-control").includes("no-store")) yield `${status} without no-store`
  if ((code === "unauthenticated") !== (headersOf(answer, "www-authenticate")[0] === "Bearer"))
    yield `${code} and www-authenticate`
  const [retryAfter] = headersOf(answer, "retry-after")
  if (status === 429 && retryAfter === undefined) yield "429 without retry-after"
  if (retryAfter !== undefined && !/^[1-9]\d*$/.test(retryAfter)) yield `retry-after ${retryAfter}`
}

const schemaLaw = function* ({ answer, draft, isUnread, operation }: Judged): Generator<string> {
  const { status } = answer
  if (operation === undefined || isUnread) return
  const response = operation.responses.get(status)
  if (response === undefined) {
    yield `${operation.id} answered ${status}, which is not documented`
    return
  }
  if (draft.message.method === "HEAD") return
  const { headers, validate } = response
  if (validate === undefined) {
    if (answer.body.length > 0) yield `a body with ${status}`
    return
  }
  const [type] = headersOf(answer, "content-type")
  if (type !== "application/json") yield `${operation.id} ${status} is ${type}`
  if (!validate(jsonOf(answer))) {
    const [first] = validate.errors ?? []
    yield `${operation.id} ${status} does not fit its schema: ${first?.instancePath} ${first?.message}: ${answer.body.toString().slice(0, 300)}`
  }
  if (status < 300 && headers.has("cache-control") && headersOf(answer, "cache-control")[0] !== "no-store")
    yield `${operation.id} ${status} without no-store`
}

/** An error repeats nothing of its request but the names of fields; a success only its own request. */
const echoLaw = function* ({ answer, draft }: Judged): Generator<string> {
  const isRefusal = answer.status >= 400
  const fields = isRefusal ? (envelopeOf(answer)?.details?.fields ?? []) : []
  let text = answer.bytes.toString()
  for (const { path } of fields) text = text.replaceAll(JSON.stringify(path), '""')
  if (isRefusal && canaryPart.test(text)) yield `the answer ${answer.status} repeats a part of a text`
  for (const { index, place } of findCanaries(text))
    if (isRefusal || index !== draft.index || place !== "b")
      yield `the answer ${answer.status} repeats a text (${place}) of request ${index}`
  for (const { index, place } of fields.flatMap(({ path }) => findCanaries(path)))
    if (place !== "n" || index !== draft.index) yield `a field's path repeats a text (${place})`
  if (isRefusal && credential.test(text)) yield "an error holds a credential"
}

const outcomeLaw = function* ({ answer, draft: { outcome }, path }: Judged): Generator<string> {
  const { status } = answer
  const code = envelopeOf(answer)?.code
  const found = `${status}${code === undefined ? "" : ` ${code}`}`
  if (outcome.kind === "accepted" && status >= 300) yield `a valid request was refused: ${found}`
  if (
    outcome.kind === "refused" &&
    (status !== outcome.status || (code !== undefined && code !== outcome.code))
  )
    yield `${found} instead of ${outcome.status} ${outcome.code}`
  if (outcome.kind === "options" && status !== 204) yield `OPTIONS answered ${found}`
  if (status !== 405 && outcome.kind !== "options") return
  const [allow] = headersOf(answer, "allow")
  const allowed = new Set((allow ?? "").split(", "))
  const expected = methodsOf(path)
  if (allowed.size !== expected.size || [...expected].some((method) => !allowed.has(method)))
    yield `${status} ${allow === undefined ? "without allow" : `with allow ${allow}`}`
}

const laws = [headerLaw, promisedLaw, envelopeLaw, schemaLaw, echoLaw, outcomeLaw]

/** The problems of an answer; none when every law holds. */
export const checkAnswer = (draft: Draft, answer: RawAnswer): ReadonlyArray<string> => {
  const { method, target } = draft.message
  const judged: Judged = {
    draft,
    answer,
    path: pathOf(target),
    operation: operationOf(method, target),
    isUnread: draft.isSyntax || method === "CONNECT" || answer.status === 431
  }
  const failed =
    answer.status >= 500 ? [`${answer.status} ${envelopeOf(answer)?.code} while all upstreams are well`] : []
  return [...failed, ...laws.flatMap((law) => [...law(judged)])]
}
