/** The laws of one answer beside those of the oracle: docs/api.md and RFC 9110, without the code of the service. */
import {
  type Answer,
  codeOf,
  refusalOf,
  securityHeadersOfEveryAnswer,
  type Sent
} from "../../world/Driver.ts"
import { answerProblems } from "../../world/Oracle.ts"
import { answerOf, headersOf, type RawAnswer } from "../../world/RawHttp.ts"
import { documents, methodsOf, type Operation, operationOf, pathOf } from "../../world/Contract.ts"
import { canaryPart, type Draft, findCanaries } from "./Requests.ts"

export const toSent = ({ body, message }: Draft): Sent => ({
  method: message.method,
  path: pathOf(message.target),
  headers: Object.fromEntries(message.headers.map(([name, value]) => [name.toLowerCase(), value.trim()])),
  ...(body === undefined ? {} : { body })
})

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

interface Judged {
  readonly draft: Draft
  readonly answer: RawAnswer
  readonly path: string
  readonly given: Answer
  /** The call that answers. */
  readonly operation: Operation | undefined
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

const typeLaw = function* ({ draft, given, operation, path }: Judged): Generator<string> {
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
  if (!/^[A-Za-z0-9._-]{8,128}$/.test(headers["x-request-id"] ?? ""))
    yield `${path} ${status} without a request id`
  const retryAfter = headers["retry-after"]
  if (retryAfter !== undefined && !/^[1-9]\d*$/.test(retryAfter)) yield `retry-after ${retryAfter}`
}

/** An error repeats nothing of its request; a success only its own request. */
const echoLaw = function* ({ answer: { bytes, status }, draft }: Judged): Generator<string> {
  const text = bytes.toString()
  if (status >= 400 && canaryPart.test(text)) yield `the answer ${status} repeats a part of a text`
  for (const { index, place } of findCanaries(text))
    if (index !== draft.index || place !== "b")
      yield `the answer ${status} repeats a text (${place}) of request ${index}`
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
  if (outcome.kind === "refused" && outcome.says !== undefined && code !== undefined) {
    const [path, problem] = outcome.says
    const fields = JSON.stringify(refusalOf(given)?.details.fields ?? [])
    if (!fields.startsWith(`[{"path":"${path}","problem":"`) || !fields.includes(problem))
      yield `${found} names ${fields}, and not ${path}: ${problem}`
  }
  if (outcome.kind === "options" && status !== 204) yield `OPTIONS answered ${found}`
  const isAllowed = (headers.allow ?? "").split(", ").sort().join() === methodsOf(path).join()
  if ((status === 405 || outcome.kind === "options") && !isAllowed)
    yield `${status} with allow ${headers.allow}`
}

const laws = [headerLaw, typeLaw, echoLaw, outcomeLaw]

/** The problems of an answer; none when every law holds. */
export const checkAnswer = (draft: Draft, answer: RawAnswer): ReadonlyArray<string> => {
  const { method, target } = draft.message
  const isUnread = draft.isSyntax || method === "CONNECT" || answer.status === 431
  const given = answerOf(answer)
  const judged = {
    draft,
    answer,
    given,
    path: pathOf(target),
    operation: operationOf(method, target)
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
