/** The laws of one answer: the document, docs/api.md and RFC 9110, without the code of the service. */
import { type Answer, headersOf } from "./Answers.ts"
import { canaryPart, findCanaries } from "./Canary.ts"
import { codes, documents, operationsByPath } from "./Contract.ts"
import { type Draft, headerOf } from "./Draft.ts"
import { type Expectation, pathOf } from "./Expectation.ts"
import { securityHeadersOfEveryAnswer } from "../../support/SecurityHeaders.ts"

interface Envelope {
  readonly code: string
  readonly message: string
  readonly hint: string
  readonly retryable: boolean
  readonly details?: { readonly fields?: ReadonlyArray<{ readonly path: string; readonly problem: string }> }
}

export const jsonOf = ({ body }: Answer): unknown => {
  try {
    return JSON.parse(body.toString())
  } catch {
    return undefined
  }
}

/** The envelope of an error; undefined when the body has another form. */
export const envelopeOf = (answer: Answer): Envelope | undefined => {
  const value = jsonOf(answer)
  if (typeof value !== "object" || value === null || !("error" in value)) return undefined
  // Every field is checked below.
  const error = value.error as Envelope
  const text = (part: unknown) => typeof part === "string" && part.trim() !== ""
  return typeof error === "object" &&
    error !== null &&
    text(error.code) &&
    text(error.message) &&
    text(error.hint) &&
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
const ofPreflight = ["access-control-allow-methods", "access-control-allow-headers", "access-control-max-age"]
const ofDocuments = ["etag", "cache-control", "vary", "content-encoding", "cross-origin-opener-policy"]
/** Of an answer that belongs to no documented call: an unknown path, a wrong method, a malformed request. */
const ofErrors = ["x-request-id", "cache-control", "x-music-min-cli"]

const credential = /(?:oat|ort|oac|obo|ask)_[A-Za-z0-9_-]{16,}/

const documentedHeaders = (draft: Draft, answer: Answer): ReadonlySet<string> => {
  const path = pathOf(draft.target)
  const cors = path.startsWith("/api/v1/") ? ofCors : []
  const method = draft.method === "HEAD" ? "GET" : draft.method
  const operation = operationsByPath.get(path)?.find((each) => each.method === method)
  const own = operation?.responses.get(answer.status)?.headers
  if (own !== undefined) return new Set([...ofHttp, ...cors, ...own])
  if (documents.has(path)) return new Set([...ofHttp, ...ofDocuments, ...ofErrors, "allow"])
  return new Set([
    ...ofHttp,
    ...cors,
    ...ofErrors,
    ...(answer.status === 405 ? ["allow"] : []),
    ...(answer.status === 204 ? ["allow", ...ofPreflight] : [])
  ])
}

/** CORS and rate limits where docs/api.md promises them; what never became a request has neither. */
const checkDue = (draft: Draft, answer: Answer, webOrigin: string, problems: Array<string>): void => {
  const path = pathOf(draft.target)
  if (draft.malformed !== undefined || draft.method === "CONNECT" || answer.status === 431) return
  if (!path.startsWith("/api/v1/")) return
  const due = (name: string, value: string | undefined) => {
    const [given] = headersOf(answer, name)
    if (given !== value) problems.push(`${name} is ${given} instead of ${value} with ${answer.status}`)
  }
  due("vary", "Origin")
  const origins = headerOf(draft, "origin").map((value) => value.replace(/^[ \t]+|[ \t]+$/g, ""))
  const allowed = origins.length === 1 && origins[0] === webOrigin
  // Of several, the server perhaps reads one.
  if (origins.length < 2) {
    due("access-control-allow-origin", allowed ? webOrigin : undefined)
    due("access-control-expose-headers", allowed ? exposed : undefined)
  }
  const preflight =
    allowed && answer.status === 204 && headerOf(draft, "access-control-request-method").length > 0
  if (preflight && draft.method === "OPTIONS") {
    due("access-control-allow-methods", headersOf(answer, "allow")[0])
    due("access-control-allow-headers", allowedToSend)
  }
  const method = draft.method === "HEAD" ? "GET" : draft.method
  const operation = operationsByPath.get(path)?.find((each) => each.method === method)
  const counted = answer.status < 300 || ofCounted.includes(envelopeOf(answer)?.code ?? "")
  if (operation === undefined || !counted) return
  for (const name of ["ratelimit", "ratelimit-policy"])
    if (headersOf(answer, name).length !== 1) problems.push(`${answer.status} without ${name}`)
}

const checkHeaders = (draft: Draft, answer: Answer, problems: Array<string>): void => {
  const allowed = documentedHeaders(draft, answer)
  const seen = new Set<string>()
  for (const [name, value] of securityHeadersOfEveryAnswer) {
    const isPage = name === "content-security-policy" && documents.has(pathOf(draft.target))
    const [given] = headersOf(answer, name)
    if (isPage ? given === undefined : given !== value)
      problems.push(`${name} is ${given} with ${answer.status}`)
  }
  for (const [name] of answer.headers) {
    if (!allowed.has(name) && !securityHeadersOfEveryAnswer.has(name))
      problems.push(`undocumented header ${name} with ${answer.status}`)
    if (seen.has(name)) problems.push(`header ${name} twice`)
    seen.add(name)
  }
  const [requestId = ""] = headersOf(answer, "x-request-id")
  const sent = headerOf(draft, "x-request-id").map((value) => value.replace(/^[ \t]+|[ \t]+$/g, ""))
  const own =
    sent.length === 1 && /^[A-Za-z0-9._-]{8,128}$/.test(sent[0] ?? "") && !credential.test(sent[0] ?? "")
  const fresh = /^req_[0-9a-f]{32}$/.test(requestId)
  // What never became a request has a new id.
  if (
    !(own ? requestId === sent[0] || (draft.malformed !== undefined && fresh) : fresh) &&
    draft.method !== "CONNECT" &&
    answer.status !== 431 &&
    // The bytes perhaps name another id.
    draft.verbatim === undefined
  )
    problems.push(`x-request-id is ${JSON.stringify(requestId)}`)
  const [origin] = headersOf(answer, "access-control-allow-origin")
  if (
    origin !== undefined &&
    (headerOf(draft, "origin").length !== 1 || headerOf(draft, "origin")[0]?.trim() !== origin)
  )
    problems.push("CORS for an origin that was not sent")
  checkMinimumVersion(draft, answer, problems)
}

/** Known orders of versions: a lower one gets `X-Music-Min-Cli` under /api/v1, any other does not. */
const lower = /^0\.(?:0\.\d+|1\.0-[a-z.0-9]+)$/
const checkMinimumVersion = (draft: Draft, answer: Answer, problems: Array<string>): void => {
  if (draft.malformed !== undefined || draft.method === "CONNECT" || answer.status === 431) return
  const values = headerOf(draft, "x-music-client-version").map((value) =>
    value.replace(/^[ \t]+|[ \t]+$/g, "")
  )
  const given = headersOf(answer, "x-music-min-cli")
  const expected =
    values.length === 1 && lower.test(values[0] ?? "") && pathOf(draft.target).startsWith("/api/v1/")
  // Other texts may be versions, too.
  const known =
    values.length === 0 || expected || /^(?:[1-9]\d*\.\d+\.\d+|0\.1\.0(?:\+.*)?)$/.test(values[0] ?? "")
  if (known && (given.length === 1) !== expected)
    problems.push(`x-music-min-cli is ${JSON.stringify(given)} for version ${JSON.stringify(values)}`)
}

const checkEnvelope = (answer: Answer, problems: Array<string>): void => {
  const envelope = envelopeOf(answer)
  if (envelope === undefined) {
    problems.push(`the body of ${answer.status} is no envelope: ${answer.body.toString().slice(0, 200)}`)
    return
  }
  const row = codes.get(envelope.code)
  if (row === undefined) problems.push(`undocumented code ${envelope.code}`)
  else {
    if (!row.statuses.has(answer.status)) problems.push(`${envelope.code} with status ${answer.status}`)
    if (row.retryable !== envelope.retryable)
      problems.push(`${envelope.code} has retryable ${envelope.retryable}`)
  }
  const [type] = headersOf(answer, "content-type")
  if (type !== "application/json") problems.push(`an error of type ${type}`)
  if (!headersOf(answer, "cache-control").includes("no-store"))
    problems.push(`${answer.status} without no-store`)
  if ((envelope.code === "unauthenticated") !== (headersOf(answer, "www-authenticate")[0] === "Bearer"))
    problems.push(`${envelope.code} and www-authenticate`)
  const [retryAfter] = headersOf(answer, "retry-after")
  if (answer.status === 429 && retryAfter === undefined) problems.push("429 without retry-after")
  if (retryAfter !== undefined && !/^[1-9]\d*$/.test(retryAfter)) problems.push(`retry-after ${retryAfter}`)
  if (answer.status === 405 && headersOf(answer, "allow").length !== 1) problems.push("405 without allow")
}

const checkSchema = (draft: Draft, answer: Answer, problems: Array<string>): void => {
  const path = pathOf(draft.target)
  const method = draft.method === "HEAD" ? "GET" : draft.method
  const operation = operationsByPath.get(path)?.find((each) => each.method === method)
  if (operation === undefined || draft.malformed !== undefined || answer.status === 431) return
  const response = operation.responses.get(answer.status)
  if (response === undefined) {
    problems.push(`${operation.id} answered ${answer.status}, which is not documented`)
    return
  }
  if (draft.method === "HEAD") return
  if (response.validate === undefined) {
    if (answer.body.length > 0) problems.push(`a body with ${answer.status}`)
    return
  }
  if (headersOf(answer, "content-type")[0] !== "application/json")
    problems.push(`${operation.id} ${answer.status} is ${headersOf(answer, "content-type")[0]}`)
  if (!response.validate(jsonOf(answer))) {
    const [first] = response.validate.errors ?? []
    problems.push(
      `${operation.id} ${answer.status} does not fit its schema: ${first?.instancePath} ${first?.message}: ${answer.body.toString().slice(0, 300)}`
    )
  }
  if (
    answer.status < 300 &&
    response.headers.has("cache-control") &&
    headersOf(answer, "cache-control")[0] !== "no-store"
  )
    problems.push(`${operation.id} ${answer.status} without no-store`)
}

/** An error repeats nothing of its request but the names of fields; a success only its own request. */
const checkEcho = (draft: Draft, answer: Answer, problems: Array<string>): void => {
  const refusal = answer.status >= 400
  const fields = refusal ? (envelopeOf(answer)?.details?.fields ?? []) : []
  let text = answer.bytes.toString()
  for (const { path } of fields) text = text.replaceAll(JSON.stringify(path), '""')
  if (refusal && canaryPart.test(text)) problems.push(`the answer ${answer.status} repeats a part of a text`)
  for (const { index, place } of findCanaries(text)) {
    const own = index === draft.index
    if (refusal || !own || place !== "b")
      problems.push(`the answer ${answer.status} repeats a text (${place}) of request ${index}`)
  }
  for (const { index, place } of fields.flatMap(({ path }) => findCanaries(path)))
    if (place !== "n" || index !== draft.index) problems.push(`a field's path repeats a text (${place})`)
  if (refusal && credential.test(text)) problems.push("an error holds a credential")
}

const checkExpectation = (expected: Expectation, answer: Answer, problems: Array<string>): void => {
  const code = envelopeOf(answer)?.code
  const found = `${answer.status}${code === undefined ? "" : ` ${code}`}`
  const allow = new Set((headersOf(answer, "allow")[0] ?? "").split(", "))
  const allows = (expectedAllow: ReadonlySet<string>) =>
    allow.size === expectedAllow.size && [...expectedAllow].every((method) => allow.has(method))
  switch (expected.kind) {
    case "accepted":
      if (answer.status >= 300) problems.push(`a valid request was refused: ${found}`)
      break
    case "refused":
      if (answer.status !== expected.status || (code !== undefined && code !== expected.code))
        problems.push(`${found} instead of ${expected.status} ${expected.code}`)
      break
    case "options":
      if (answer.status !== 204 || !allows(expected.allow))
        problems.push(`OPTIONS answered ${found} ${[...allow]}`)
      break
    case "not allowed":
      if (answer.status !== 405 || !allows(expected.allow))
        problems.push(`${found} ${[...allow]} instead of 405`)
      break
    case "open":
      break
  }
}

/** The problems of an answer; none when every law holds. */
export const checkAnswer = (
  draft: Draft,
  expected: Expectation,
  answer: Answer,
  webOrigin: string
): ReadonlyArray<string> => {
  const problems: Array<string> = []
  if (answer.status >= 500)
    problems.push(`${answer.status} ${envelopeOf(answer)?.code} while all upstreams are well`)
  checkHeaders(draft, answer, problems)
  checkDue(draft, answer, webOrigin, problems)
  if (answer.status >= 400 && draft.method !== "HEAD") checkEnvelope(answer, problems)
  checkSchema(draft, answer, problems)
  checkEcho(draft, answer, problems)
  checkExpectation(expected, answer, problems)
  return problems
}
