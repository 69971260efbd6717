/** Strict JSON: UTF-8, at most 64 levels deep, no `__proto__` key, no lone surrogate, no number that overflows. */
import { Failure } from "./Failures.js"

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
const nestingLimit = 64

const invalid = (problem) => new Failure("invalid_input", { fields: [{ path: "", problem }] })

const nestsTooDeep = (bytes) => {
  let depth = 0
  let inString = false
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at]
    if (inString) {
      if (byte === 0x5c) at += 1
      else if (byte === 0x22) inString = false
    } else if (byte === 0x22) inString = true
    else if (byte === 0x5b || byte === 0x7b) {
      depth += 1
      if (depth > nestingLimit) return true
    } else if (byte === 0x5d || byte === 0x7d) depth -= 1
  }
  return false
}

const problemOf = (value) => {
  if (typeof value === "string") return value.isWellFormed() ? undefined : "holds a lone surrogate"
  if (typeof value === "number")
    return Number.isFinite(value) ? undefined : "holds a number that is too large"
  if (typeof value !== "object" || value === null) return undefined
  for (const name of Object.keys(value)) {
    if (name === "__proto__") return "holds a __proto__ key"
    const problem = (name.isWellFormed() ? undefined : "holds a lone surrogate") ?? problemOf(value[name])
    if (problem !== undefined) return problem
  }
  return undefined
}

/** Throws a `Failure` that contains nothing of the text. */
export const parseStrictJson = (bytes) => {
  if (bytes.length === 0) throw invalid("is empty")
  if (nestsTooDeep(bytes)) throw invalid(`nests deeper than ${nestingLimit} levels`)
  let value
  try {
    value = JSON.parse(utf8.decode(bytes))
  } catch {
    throw invalid("is not valid JSON")
  }
  const problem = problemOf(value)
  if (problem !== undefined) throw invalid(problem)
  return value
}
