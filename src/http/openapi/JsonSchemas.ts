/** JSON Schemas of the published document, rid of what the library says of itself. */

type Members = Readonly<Record<string, unknown>>

const isMembers = (value: unknown): value is Members =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Values that are data and no schema: nothing in them is noise. */
const data = ["value", "example", "examples", "default", "enum", "const"]

const isEmpty = (value: unknown): boolean =>
  typeof value === "object" && value !== null && Object.keys(value).length === 0

/** Descriptions that the library makes from its filters, such as `a string at most 500 character(s) long`. */
const generated = /^an? [a-z ]+(?: of)? (?:at most|at least) \d+ [a-z]+\(s\)/

/** Titles like `maxLength(64)`, marks of schemas that take anything, and empty lists say nothing to a reader. */
const saysNothing = (name: string, member: unknown): boolean => {
  switch (name) {
    case "title":
      return (
        typeof member === "string" && (/\(.*\)$/.test(member) || member === "unknown" || member === "int")
      )
    case "description":
      return typeof member === "string" && generated.test(member)
    case "$id":
      return typeof member === "string" && member.startsWith("/schemas/")
    case "required":
    case "properties":
      return isEmpty(member)
    default:
      return false
  }
}

export const tidied = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(tidied)
  if (!isMembers(value)) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name, member]) => !saysNothing(name, member))
      .map(([name, member]) => [name, data.includes(name) ? member : tidied(member)])
  )
}

const prefix = "#/components/schemas/"

const namesIn = (value: unknown): ReadonlyArray<string> => {
  if (Array.isArray(value)) return value.flatMap(namesIn)
  if (!isMembers(value)) return []
  return Object.entries(value).flatMap(([name, member]) =>
    name === "$ref" && typeof member === "string" && member.startsWith(prefix)
      ? [member.slice(prefix.length)]
      : namesIn(member)
  )
}

/** Names of the schemas that these parts of the document are made of. */
export const reachableFrom = (roots: ReadonlyArray<unknown>, schemas: Members): ReadonlySet<string> => {
  const seen = new Set<string>()
  const queue = [...namesIn(roots)]
  for (let name = queue.pop(); name !== undefined; name = queue.pop()) {
    if (seen.has(name)) continue
    seen.add(name)
    queue.push(...namesIn(schemas[name]))
  }
  return seen
}

const opened = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(opened)
  if (!isMembers(value)) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name, member]) => !(name === "additionalProperties" && member === false))
      .map(([name, member]) => [name, data.includes(name) ? member : opened(member)])
  )
}

/** Requests refuse unknown fields; answers may grow, and a client that refused a new field would break by it. */
export const openedExcept = (schemas: unknown, closed: ReadonlySet<string>): unknown =>
  isMembers(schemas)
    ? Object.fromEntries(
        Object.entries(schemas).map(([name, schema]) => [name, closed.has(name) ? schema : opened(schema)])
      )
    : schemas
