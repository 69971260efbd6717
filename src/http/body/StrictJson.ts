import * as Either from "effect/Either"
import { nestingLimit } from "../../schema/BodyLimits.ts"

/** The problem of a body beyond that limit. */
export const tooDeep = `nests deeper than ${nestingLimit} levels`

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

const quote = 0x22
const backslash = 0x5c
const isOpening = (byte: number): boolean => byte === 0x5b || byte === 0x7b
const isClosing = (byte: number): boolean => byte === 0x5d || byte === 0x7d

/** Linear, and runs before anything recursive. Works on bytes, because JSON's structural characters are ASCII. */
export const nestsTooDeep = (bytes: Uint8Array): boolean => {
  let depth = 0
  let inString = false
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? 0
    if (inString) {
      if (byte === backslash) at += 1
      else if (byte === quote) inString = false
    } else if (byte === quote) inString = true
    else if (isOpening(byte)) {
      depth += 1
      if (depth > nestingLimit) return true
    } else if (isClosing(byte)) depth -= 1
  }
  return false
}

const loneSurrogate = /\p{Surrogate}/u

/** The first problem of a parsed value that the grammar allows. Checks decoded keys, so that no escape hides one. */
const findProblem = (value: unknown): string | undefined => {
  if (typeof value === "string") return loneSurrogate.test(value) ? "holds a lone surrogate" : undefined
  if (typeof value === "number")
    return Number.isFinite(value) ? undefined : "holds a number that is too large"
  if (typeof value !== "object" || value === null) return undefined
  if (Object.hasOwn(value, "__proto__")) return "holds a __proto__ key"
  for (const part of Array.isArray(value) ? value : Object.entries(value).flat()) {
    const problem = findProblem(part)
    if (problem !== undefined) return problem
  }
  return undefined
}

/**
 * Parses strict JSON: UTF-8 without a byte order mark, at most `nestingLimit` levels deep, no `__proto__` key, no lone surrogates,
 * no number that overflows a double. Left is the problem, and contains nothing of the text.
 */
export const parseJson = (bytes: Uint8Array): Either.Either<unknown, string> => {
  if (bytes.length === 0) return Either.left("is empty")
  if (nestsTooDeep(bytes)) return Either.left(tooDeep)
  const text = Either.try({ try: () => utf8.decode(bytes), catch: () => "is not valid UTF-8" })
  const json = Either.flatMap(text, (given) =>
    Either.try({ try: (): unknown => JSON.parse(given), catch: () => "is not valid JSON" })
  )
  return Either.flatMap(json, (value) => {
    const problem = findProblem(value)
    return problem === undefined ? Either.right(value) : Either.left(problem)
  })
}
