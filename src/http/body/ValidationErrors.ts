/** The problem of a body that does not fit its schema, in words that contain nothing of the input. */
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { type Failure, refuseField } from "../../schema/Failure.ts"
import { redact } from "../../services/text/Redaction.ts"

type Issue = ParseResult.ArrayFormatterIssue

const plainName = /^[\w-]{1,64}$/

/** The name of a field as the caller sent it, unless it may be a credential or is no plain name. */
const toName = (part: PropertyKey): string => {
  const name = String(part)
  return plainName.test(name) && redact(name) === name ? name : "(name not shown)"
}

const kinds: ReadonlyArray<readonly [RegExp, string]> = [
  [/^(?:ReadonlyArray<|readonly \[)/, "an array"],
  // A schema with a name is a struct.
  [/^(?:\{|[A-Z][A-Za-z]+$|Any JSON object)/, "an object"],
  [/^string$/, "a string"]
]

/** The library's text is `Expected <type or description>, actual <value>`; the value must not reach the response. */
const expectation = /^Expected ([\s\S]*?), actual /

const lowerFirst = (text: string): string => text.charAt(0).toLowerCase() + text.slice(1)

const toProblem = ({ _tag, message, path }: Issue): string => {
  if (_tag === "Missing") return "is missing"
  if (_tag === "Unexpected" || message === "is unexpected") return "is not a known field"
  if (path.length === 0) return "must be an object"
  const expected = expectation.exec(message)?.[1]
  if (expected === undefined) return message
  return `must be ${kinds.find(([pattern]) => pattern.test(expected))?.[1] ?? lowerFirst(expected).replace("(s)", "s")}`
}

/** Of a field that may be absent or null, only the problem of its value helps. */
const isAlternative = ({ message }: Issue): boolean => /^Expected (?:null|undefined), actual /.test(message)

/** Without the refused values: the library writes each of them out, and of a large one that costs far more than to decode it. */
const withoutValues = (issue: ParseResult.ParseIssue): ParseResult.ParseIssue =>
  Object.create(issue, {
    actual: { value: undefined },
    ...("issue" in issue ? { issue: { value: withoutValues(issue.issue) } } : {}),
    ...("issues" in issue ? { issues: { value: [issue.issues].flat().map(withoutValues) } } : {})
  })

const toFailure = (issues: ReadonlyArray<Issue>): Failure<"invalid_input"> | undefined => {
  const issue = issues.find((found) => !isAlternative(found)) ?? issues[0]
  return issue && refuseField(issue.path.map(toName).join(".") || "body", toProblem(issue))
}

/** Finds the first problem of a body by its schema. */
export const findProblemBy = (payload: Schema.Schema<never, unknown>) => {
  const decode = Schema.decodeUnknownEither(payload)
  return (body: unknown): Failure<"invalid_input"> | undefined =>
    Either.match(decode(body), {
      onRight: () => undefined,
      onLeft: ({ issue }) => toFailure(ParseResult.ArrayFormatter.formatIssueSync(withoutValues(issue)))
    })
}
