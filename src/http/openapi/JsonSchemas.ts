/** JSON Schemas of the published document, without the library's generated texts. */

type Members = Readonly<Record<string, unknown>>

const isMembers = (value: unknown): value is Members =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Members that hold data and not schemas; nothing in them is removed. */
const data = ["value", "example", "examples", "default", "enum", "const"]

const isEmpty = (value: unknown): boolean =>
  typeof value === "object" && value !== null && Object.keys(value).length === 0

/** Descriptions that the library makes from its filters, such as `a string at most 500 character(s) long`. */
const generated = /^an? [a-z ]+(?: of)? (?:at most|at least) \d+ [a-z]+\(s\)/

/** Titles like `maxLength(64)`, ids of schemas without a constraint, and empty lists. */
const isNoise = (name: string, member: unknown): boolean => {
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

/** Removes members at every depth, but not inside examples and other data. */
const removeMembers = (isRemoved: (name: string, member: unknown) => boolean) => {
  const clean = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(clean)
    if (!isMembers(value)) return value
    return Object.fromEntries(
      Object.entries(value)
        .filter(([name, member]) => !isRemoved(name, member))
        .map(([name, member]) => [name, data.includes(name) ? member : clean(member)])
    )
  }
  return clean
}

/** Removes generated texts and empty members from a schema. */
export const tidy = removeMembers(isNoise)

/** Removes `additionalProperties: false`. */
const open = removeMembers((name, member) => name === "additionalProperties" && member === false)

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

/** Names of the schemas that these parts of the document refer to, directly or indirectly. */
export const collectReferences = (roots: ReadonlyArray<unknown>, schemas: Members): ReadonlySet<string> => {
  const seen = new Set<string>()
  const queue = [...namesIn(roots)]
  for (let name = queue.pop(); name !== undefined; name = queue.pop()) {
    if (seen.has(name)) continue
    seen.add(name)
    queue.push(...namesIn(schemas[name]))
  }
  return seen
}

/** Opens all schemas but those of requests: requests refuse unknown fields, responses may gain fields. */
export const openExcept = (schemas: unknown, closed: ReadonlySet<string>): unknown =>
  isMembers(schemas)
    ? Object.fromEntries(
        Object.entries(schemas).map(([name, schema]) => [name, closed.has(name) ? schema : open(schema)])
      )
    : schemas
