/** JSON as text: a writer that can write what is no value, and a reader that names what docs/api.md, "Request bodies", forbids. */

/** A piece of text in place of a value: a huge number, an escape, anything. */
export class RawText {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

export type Json = null | boolean | number | string | RawText | ReadonlyArray<Json> | JsonMembers
/** A list, so that a name may occur twice. */
export interface JsonMembers {
  readonly members: ReadonlyArray<readonly [string, Json]>
}

export const isMembers = (value: Json): value is JsonMembers =>
  typeof value === "object" && value !== null && "members" in value

export const isList = (value: Json): value is ReadonlyArray<Json> => Array.isArray(value)

export const object = (entries: Readonly<Record<string, Json>>): JsonMembers => ({
  members: Object.entries(entries)
})

export const toText = (value: Json): string => {
  if (value instanceof RawText) return value.text
  if (isList(value)) return `[${value.map(toText).join(",")}]`
  if (isMembers(value))
    return `{${value.members.map(([name, member]) => `${JSON.stringify(name)}:${toText(member)}`).join(",")}}`
  return JSON.stringify(value)
}

const loneSurrogate = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/

/** Why a text is no strict JSON; undefined when it is. A reader by recursion of its own, so that it is independent of the service. */
export const findFault = (bytes: Buffer): string | undefined => {
  let text: string
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return "UTF-8"
  }
  let at = 0
  let fault: string | undefined
  const fail = (reason: string): false => {
    fault ??= reason
    return false
  }
  const space = () => {
    while (at < text.length && " \t\r\n".includes(text.charAt(at))) at += 1
  }
  const take = (expected: string): boolean => {
    if (!text.startsWith(expected, at)) return false
    at += expected.length
    return true
  }
  const string = (): string | false => {
    if (!take('"')) return fail("grammar")
    let content = ""
    while (at < text.length) {
      const character = text.charAt(at)
      if (character === '"') {
        at += 1
        return loneSurrogate.test(content) ? fail("surrogate") : content
      }
      if (character < " ") return fail("grammar")
      if (character !== "\\") {
        content += character
        at += 1
        continue
      }
      const escape = /^\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/.exec(text.slice(at, at + 6))?.[0]
      if (escape === undefined) return fail("grammar")
      content += String(JSON.parse(`"${escape}"`))
      at += escape.length
    }
    return fail("grammar")
  }
  const number = (): boolean => {
    const found = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/.exec(text.slice(at, at + 2_000))?.[0]
    if (found === undefined) return fail("grammar")
    at += found.length
    return Number.isFinite(Number(found)) || fail("number")
  }
  const value = (depth: number): boolean => {
    space()
    const opening = text.charAt(at)
    if ((opening === "[" || opening === "{") && depth >= 64) return fail("nesting")
    const done = read(depth)
    space()
    return done
  }
  const read = (depth: number): boolean => {
    if (text.charAt(at) === '"') return string() !== false
    if (take("true") || take("false") || take("null")) return true
    if (take("[")) {
      space()
      if (take("]")) return true
      do if (!value(depth + 1)) return false
      while (take(","))
      return take("]") || fail("grammar")
    }
    if (take("{")) {
      space()
      if (take("}")) return true
      do {
        space()
        const name = string()
        if (name === false) return false
        if (name === "__proto__") return fail("__proto__")
        space()
        if (!take(":")) return fail("grammar")
        if (!value(depth + 1)) return false
      } while (take(","))
      return take("}") || fail("grammar")
    }
    return number()
  }
  if (value(0) && at < text.length) fail("grammar")
  return fault
}
