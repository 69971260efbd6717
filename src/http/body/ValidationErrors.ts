/** Validation errors by field, in words that contain nothing of the input. */
import type { ArrayFormatterIssue } from "effect/ParseResult"
import { redact } from "../../services/text/Redaction.ts"

interface Field {
  readonly path: string
  readonly problem: string
}

/** Bounds the response to a hostile body. */
const fieldLimit = 20
const pathLimit = 120

const truncate = (path: string): string => (path.length <= pathLimit ? path : `${path.slice(0, pathLimit)}…`)

const plainName = /^[\w-]{1,64}$/

/** The name of a field as the caller sent it, unless it may be a credential or is no plain name. */
const toName = (part: PropertyKey): string => {
  const name = String(part)
  return plainName.test(name) && redact(name) === name ? name : "(name not shown)"
}

/** The dotted path of a field; the body itself is `body`. */
const toDottedPath = (path: ArrayFormatterIssue["path"]): string =>
  path.length === 0 ? "body" : truncate(path.map(toName).join("."))

const kinds: ReadonlyArray<readonly [RegExp, string]> = [
  [/^(?:ReadonlyArray<|readonly \[)/, "an array"],
  // A schema with a name is a struct.
  [/^(?:\{|[A-Z][A-Za-z]+$)/, "an object"],
  [/^string$/, "a string"],
  [/^number$/, "a number"],
  [/^boolean$/, "true or false"]
]

/** The library's text is `Expected <type or description>, actual <value>`; the value must not reach the response. */
const expectation = /^Expected ([\s\S]*?), actual /

const lowerFirst = (text: string): string => text.charAt(0).toLowerCase() + text.slice(1)

const toProblem = ({ _tag, message, path }: ArrayFormatterIssue): string => {
  if (_tag === "Missing") return "is missing"
  if (_tag === "Unexpected" || message === "is unexpected") return "is not a known field"
  if (path.length === 0) return "must be an object"
  const expected = expectation.exec(message)?.[1]
  if (expected === undefined) return message
  return `must be ${kinds.find(([pattern]) => pattern.test(expected))?.[1] ?? lowerFirst(expected)}`
}

/** Of a field that may be absent or null, only the problem of its value helps. */
const isAlternative = ({ message }: ArrayFormatterIssue): boolean =>
  /^Expected (?:null|undefined), actual /.test(message)

/** The problems of a body: at most 20 fields, the first problem of each. */
export const toFields = (issues: ReadonlyArray<ArrayFormatterIssue>): ReadonlyArray<Field> => {
  const problems = new Map<string, string>()
  for (const issue of issues) {
    const path = toDottedPath(issue.path)
    if (isAlternative(issue) || problems.has(path)) continue
    if (problems.size >= fieldLimit) break
    problems.set(path, toProblem(issue))
  }
  return [...problems].map(([path, problem]) => ({ path, problem }))
}
