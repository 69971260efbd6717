/** The laws of one answer beside those of the oracle: docs/api.md and RFC 9110, without the code of the service. */
import { securityHeadersOfEveryAnswer } from "../../world/Driver.ts"
import { type Answer, bodyOf, codeOf, type Sent } from "../../world/Driver.ts"
import { answerProblems } from "../../world/Oracle.ts"
import { headersOf, type RawAnswer } from "../../world/RawHttp.ts"
import { documents, methodsOf, type Operation, operationOf, pathOf } from "../../world/Contract.ts"
import { canaryPart, type Draft, findCanaries, valuesIn } from "./Requests.ts"
import { webOrigin } from "./World.ts"

export const toSent = ({ body, message }: Draft): Sent => ({
  method: message.method,
  path: pathOf(message.target),
  headers: Object.fromEntries(message.headers.map(([name, value]) => [name.toLowerCase(), value.trim()])),
  ...(body === undefined ? {} : { body })
})

export const toAnswer = ({ body, headers, status }: RawAnswer): Answer => ({
  status,
  headers: Object.fromEntries(headers),
  text: body.toString()
})

/** Names of the fields that an error is about. */
const fieldsOf = (answer: Answer): ReadonlyArray<string> => {
  const { fields = [] } = Object(Object(Object(bodyOf(answer)).error).details)
  return fields.map(({ path }: { readonly path: string }) => path)
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
const ofDocuments = ["cache-control", "vary", "cross-origin-opener-policy", "allow"]
/** Of an answer that belongs to no documented call: an unknown path, a wrong method, a malformed request. */
const ofErrors = ["x-request-id", "cache-control", "x-music-min-cli"]

/** A lower version than `MUSIC_MIN_CLI`, and one that surely is none. */
const lower = /^0\.(?:0\.\d+|1\.0-[a-z.0-9]+)$/
const notLower = /^(?:[1-9]\d*\.\d+\.\d+|0\.1\.0(?:\+.*)?)$/
const keptRequestId = /^[A-Za-z0-9._-]{8,128}$/

interface Judged {
  readonly draft: Draft
  readonly answer: RawAnswer
  readonly path: string
  readonly given: Answer
  /** The call that answers. */
  readonly operation: Operation | undefined
  /** No request ever reached the service. */
  readonly isUnread: boolean
}

const sentOnce = (draft: Draft, name: string): string | undefined => {
  const [value, ...others] = valuesIn(draft, name)
  return others.length === 0 ? value?.replace(/^[ \t]+|[ \t]+$/g, "") : undefined
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
const promisedLaw = function* ({
  answer,
  draft,
  given,
  isUnread,
  operation,
  path
}: Judged): Generator<string> {
  const [requestId = ""] = headersOf(answer, "x-request-id")
  const sent = sentOnce(draft, "x-request-id") ?? ""
  const isKept = keptRequestId.test(sent) && !sent.startsWith("oat_")
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
  const isAllowed = sentOnce(draft, "origin") === webOrigin
  const isPreflight =
    isAllowed && draft.message.method === "OPTIONS" && valuesIn(draft, "access-control-request-method")[0]
  const ofOrigin = {
    "access-control-allow-origin": isAllowed ? webOrigin : undefined,
    "access-control-expose-headers": isAllowed ? exposed : undefined
  }
  const due: Readonly<Record<string, string | undefined>> = {
    vary: "Origin",
    // Of several origins, the server perhaps reads one.
    ...(valuesIn(draft, "origin").length > 1 ? {} : ofOrigin),
    ...(isPreflight && answer.status === 204
      ? {
          "access-control-allow-methods": given.headers.allow,
          "access-control-allow-headers": allowedToSend
        }
      : {})
  }
  for (const [name, value] of Object.entries(due))
    if (given.headers[name] !== value)
      yield `${name} is ${given.headers[name]} instead of ${value} with ${answer.status}`
  const isCounted = answer.status < 300 || ofCounted.includes(codeOf(given) ?? "")
  if (operation === undefined || !isCounted) return
  for (const name of ["ratelimit", "ratelimit-policy"])
    if (headersOf(answer, name).length !== 1) yield `${answer.status} without ${name}`
}

const typeLaw = function* ({ answer, draft, given, operation, path }: Judged): Generator<string> {
  const { headers, status } = given
  const code = codeOf(given)
  const isJson = headers["content-type"] === "application/json"
  if (status >= 400 || (operation !== undefined && status !== 204)) {
    if (!isJson && draft.message.method !== "HEAD") yield `${path} ${status} is ${headers["content-type"]}`
    const isKept =
      operation !== undefined && operation.responses.get(status)?.headers.has("cache-control") !== true
    if (!isKept && headers["cache-control"] !== "no-store") yield `${path} ${status} without no-store`
  }
  if (
    draft.message.method !== "HEAD" &&
    (code === "unauthenticated") !== (headers["www-authenticate"] === "Bearer")
  )
    yield `${code} and www-authenticate`
  const retryAfter = headers["retry-after"]
  if (retryAfter !== undefined && !/^[1-9]\d*$/.test(retryAfter)) yield `retry-after ${retryAfter}`
  if (status < 400) return
  const long = String(draft.body ?? "").match(/(?<![\d.])-?\d{6,}(?![\d.])/g) ?? []
  for (const number of new Set(long))
    if (answer.body.includes(number)) yield `the answer ${status} repeats the number ${number.slice(0, 20)}`
}

/** An error repeats nothing of its request but the names of fields; a success only its own request. */
const echoLaw = function* ({ answer, draft, given }: Judged): Generator<string> {
  const isRefusal = answer.status >= 400
  const fields = isRefusal ? fieldsOf(given) : []
  let text = answer.bytes.toString()
  for (const path of fields) text = text.replaceAll(JSON.stringify(path), '""')
  if (isRefusal && canaryPart.test(text)) yield `the answer ${answer.status} repeats a part of a text`
  for (const { index, place } of findCanaries(text))
    if (isRefusal || index !== draft.index || place !== "b")
      yield `the answer ${answer.status} repeats a text (${place}) of request ${index}`
  for (const { index, place } of fields.flatMap(findCanaries))
    if (place !== "n" || index !== draft.index) yield `a field's path repeats a text (${place})`
}

const outcomeLaw = function* ({ draft: { outcome }, given, path }: Judged): Generator<string> {
  const { headers, status } = given
  const code = codeOf(given)
  const found = `${status}${code === undefined ? "" : ` ${code}`}`
  if (outcome.kind === "accepted" && status >= 300) yield `a valid request was refused: ${found}`
  if (
    outcome.kind === "refused" &&
    (status !== outcome.status || (code !== undefined && code !== outcome.code))
  )
    yield `${found} instead of ${outcome.status} ${outcome.code}`
  if (outcome.kind === "options" && status !== 204) yield `OPTIONS answered ${found}`
  const isAllowed = (headers.allow ?? "").split(", ").sort().join() === methodsOf(path).join()
  if ((status === 405 || outcome.kind === "options") && !isAllowed)
    yield `${status} with allow ${headers.allow}`
}

const laws = [headerLaw, promisedLaw, typeLaw, echoLaw, outcomeLaw]

/** The problems of an answer; none when every law holds. */
export const checkAnswer = (draft: Draft, answer: RawAnswer): ReadonlyArray<string> => {
  const { method, target } = draft.message
  const isUnread = draft.isSyntax || method === "CONNECT" || answer.status === 431
  const given = toAnswer(answer)
  const judged = {
    draft,
    answer,
    given,
    path: pathOf(target),
    operation: operationOf(method, target),
    isUnread
  }
  return [
    ...(answer.status >= 500 ? [`${answer.status} ${codeOf(given)} while all upstreams are well`] : []),
    // What was not read belongs to no call, and the documents have examples of credentials.
    ...(method === "HEAD" || (documents.includes(judged.path) && answer.status < 400)
      ? []
      : answerProblems(isUnread && answer.status >= 400 ? { path: "" } : toSent(draft), given)),
    ...laws.flatMap((law) => [...law(judged)])
  ]
}
