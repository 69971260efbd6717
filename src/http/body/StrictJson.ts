import * as Either from "effect/Either"
import { bodyLimits, markLimit, nestingLimit } from "../../schema/BodyLimits.ts"

/** The problem of a body beyond that limit. */
export const tooDeep = `nests deeper than ${nestingLimit} levels`

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

/** The members of a parsed value, of an object with their names: as pairs of `Object.entries` they would cost more than the parser. */
const partsOf = (value: object): ReadonlyArray<unknown> => {
  if (Array.isArray(value)) return value
  const parts: Array<unknown> = []
  for (const name in value) parts.push(name, value[name as keyof typeof value])
  return parts
}

/** Whether a parsed value nests too deep for what reads it recursively. The parser of Node itself is not recursive. */
export const nestsTooDeep = (value: unknown, levels = nestingLimit): boolean =>
  typeof value === "object" &&
  value !== null &&
  (levels === 0 || partsOf(value).some((part) => nestsTooDeep(part, levels - 1)))

const loneSurrogate = /\p{Surrogate}/u

/** The first problem of a parsed value that the grammar allows. Checks decoded keys, so that no escape hides one. */
const findProblem = (value: unknown): string | undefined => {
  if (typeof value === "string") return loneSurrogate.test(value) ? "holds a lone surrogate" : undefined
  if (typeof value === "number")
    return Number.isFinite(value) ? undefined : "holds a number that is too large"
  if (typeof value !== "object" || value === null) return undefined
  if (Object.hasOwn(value, "__proto__")) return "holds a __proto__ key"
  for (const part of partsOf(value)) {
    const problem = findProblem(part)
    if (problem !== undefined) return problem
  }
  return undefined
}

const marks: ReadonlyArray<number> = Array.from(",:[{", (mark) => mark.charCodeAt(0))
const [quote, backslash] = [0x22, 0x5c]

/** Before the parser, which takes a hundred times as long for a body of nothing but marks as for one string. */
const hasTooManyMarks = (bytes: Uint8Array): boolean => {
  if (bytes.length <= bodyLimits.telemetry) return false
  let count = 0
  let inString = false
  for (let at = 0; at < bytes.length && count <= markLimit; at += 1) {
    const byte = bytes[at] ?? 0
    if (byte === backslash) at += 1
    else if (byte === quote) inString = !inString
    else if (!inString && marks.includes(byte)) count += 1
  }
  return count > markLimit
}

/**
 * Parses strict JSON: UTF-8 without a byte order mark, at most `nestingLimit` levels deep, no `__proto__` key, no lone surrogates,
 * no number that overflows a double, at most `markLimit` marks. Left is the problem, and contains nothing of the text.
 */
export const parseJson = (bytes: Uint8Array): Either.Either<unknown, string> =>
  Either.gen(function* () {
    if (bytes.length === 0) return yield* Either.left("is empty")
    if (hasTooManyMarks(bytes))
      return yield* Either.left(`has more than ${markLimit} commas, colons and opening brackets`)
    const text = yield* Either.try({ try: () => utf8.decode(bytes), catch: () => "is not valid UTF-8" })
    const value = yield* Either.try({
      try: (): unknown => JSON.parse(text),
      catch: () => "is not valid JSON"
    })
    const problem = nestsTooDeep(value) ? tooDeep : findProblem(value)
    return problem === undefined ? value : yield* Either.left(problem)
  })
