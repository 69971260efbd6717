/** Reading an OpenAPI document without believing anything about it. */

export type Members = Readonly<Record<string, unknown>>

/** `break`: an existing client can fail by it. `warning`: one that switches on every value should look. */
export interface Finding {
  readonly level: "break" | "warning"
  readonly where: string
  readonly what: string
}

export const isMembers = (value: unknown): value is Members =>
  typeof value === "object" && value !== null && !Array.isArray(value)

export const membersOf = (value: unknown): Members => (isMembers(value) ? value : {})
export const listOf = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])
export const textsOf = (value: unknown): ReadonlyArray<string> =>
  listOf(value).filter((item): item is string => typeof item === "string")

export const breaks = (where: string, what: string): Finding => ({ level: "break", where, what })
export const warns = (where: string, what: string): Finding => ({ level: "warning", where, what })

/** The same value, whatever the order of its members. */
export const same = (left: unknown, right: unknown): boolean => canonical(left) === canonical(right)

const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, member: unknown) =>
    isMembers(member)
      ? Object.fromEntries(Object.entries(member).sort(([left], [right]) => (left < right ? -1 : 1)))
      : member
  ) ?? ""

/** Follows references within the document; what a reference says beside `$ref` is kept. */
export const resolve = (document: Members, value: unknown, depth = 0): Members => {
  const { $ref, ...own } = membersOf(value)
  if (typeof $ref !== "string" || !$ref.startsWith("#/") || depth > 20) return membersOf(value)
  const target = $ref
    .slice(2)
    .split("/")
    .map((part) => decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce<unknown>((found, part) => membersOf(found)[part], document)
  return { ...resolve(document, target, depth + 1), ...own }
}
