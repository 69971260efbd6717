/** What is wrong with an input, field by field, in words that hold nothing of what was sent. */
import type { HttpApiDecodeError } from "@effect/platform/HttpApiError"

type Issue = HttpApiDecodeError["issues"][number]

export interface Field {
  readonly path: string
  readonly problem: string
}

/** More would help nobody and let a hostile body make a long answer. */
const fieldLimit = 20
const pathLimit = 120

const bounded = (path: string): string => (path.length <= pathLimit ? path : `${path.slice(0, pathLimit)}…`)

/** Dotted; the body itself is `body`. */
const pathOf = (path: Issue["path"]): string =>
  path.length === 0 ? "body" : bounded(path.map((part) => String(part)).join("."))

const kinds: ReadonlyArray<readonly [RegExp, string]> = [
  [/^(?:ReadonlyArray<|readonly \[)/, "an array"],
  // A schema that is called by its name is a struct.
  [/^(?:\{|[A-Z][A-Za-z]+$)/, "an object"],
  [/^string$/, "a string"],
  [/^number$/, "a number"],
  [/^boolean$/, "true or false"]
]

/** The library's text is `Expected <type or description>, actual <value>`; the value never leaves. */
const expectation = /^Expected ([\s\S]*?), actual /

const lowerFirst = (text: string): string => text.charAt(0).toLowerCase() + text.slice(1)

const problemOf = ({ _tag, message, path }: Issue): string => {
  if (_tag === "Missing") return "is missing"
  if (_tag === "Unexpected" || message === "is unexpected") return "is not a known field"
  if (path.length === 0) return "must be an object"
  const expected = expectation.exec(message)?.[1]
  if (expected === undefined) return message
  return `must be ${kinds.find(([pattern]) => pattern.test(expected))?.[1] ?? lowerFirst(expected)}`
}

/** Of a field that may be absent or null, only what is wrong with its value helps. */
const isAlternative = ({ message }: Issue): boolean => /^Expected (?:null|undefined), actual /.test(message)

/** At most 20 fields, the first problem of each. */
export const fieldsOf = (issues: ReadonlyArray<Issue>): ReadonlyArray<Field> => {
  const problems = new Map<string, string>()
  for (const issue of issues) {
    const path = pathOf(issue.path)
    if (isAlternative(issue) || problems.has(path)) continue
    if (problems.size >= fieldLimit) break
    problems.set(path, problemOf(issue))
  }
  return [...problems].map(([path, problem]) => ({ path, problem }))
}
