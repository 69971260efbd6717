/** The bounds of proof metadata, and the schema that an endpoint registers for it (identity-service.md 10.1, 10.2). */
import { isRecord } from "./Grammar.ts"

const maxBytes = 16_384
const maxDepth = 8
const maxNodes = 512

const children = (value: unknown): ReadonlyArray<unknown> =>
  Array.isArray(value) ? value : isRecord(value) ? Object.values(value) : []

/** What is wrong with its size, or `undefined`. Depth and nodes count the object itself. */
export const metadataProblem = (metadata: Readonly<Record<string, unknown>>): string | undefined => {
  let level: ReadonlyArray<unknown> = [metadata]
  let nodes = 0
  for (let depth = 1; level.length > 0; depth += 1) {
    if (depth > maxDepth) return `must not be nested deeper than ${maxDepth}`
    nodes += level.length
    if (nodes > maxNodes) return `must not have more than ${maxNodes} nodes`
    level = level.flatMap(children)
  }
  return Buffer.byteLength(JSON.stringify(metadata)) > maxBytes
    ? `must not exceed ${maxBytes} bytes`
    : undefined
}

const typeOf = (value: unknown): string =>
  value === null ? "null" : Array.isArray(value) ? "array" : typeof value

const fits = (rule: unknown, value: unknown): boolean => {
  const type = isRecord(rule) ? rule.type : undefined
  return type === undefined || (type === "integer" ? Number.isInteger(value) : type === typeOf(value))
}

/** Exactly the registered keys, each of its registered type. */
export const metadataFits = (
  schema: Readonly<Record<string, unknown>>,
  metadata: Readonly<Record<string, unknown>>
): boolean =>
  Object.keys(metadata).every((key) => Object.hasOwn(schema, key)) &&
  Object.entries(schema).every(([key, rule]) => Object.hasOwn(metadata, key) && fits(rule, metadata[key]))
