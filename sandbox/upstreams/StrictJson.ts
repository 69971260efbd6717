/**
 * A strict JSON parser: strict UTF-8, no duplicate keys (or the last one wins, where a contract does not say), no
 * trailing data, limited nesting, no number beyond a double, no lone surrogate. Numbers keep their spelling, because
 * `1` and `1.0` have different digests of canonical JSON (notification-service.md 7).
 */

export type Json =
  | { readonly kind: "literal"; readonly value: string | boolean | null }
  | { readonly kind: "number"; readonly text: string }
  | { readonly kind: "array"; readonly items: ReadonlyArray<Json> }
  | { readonly kind: "object"; readonly fields: ReadonlyMap<string, Json> }

/** The reason why bytes are not acceptable JSON. The message names the position, never the content. */
export class JsonProblem extends Error {
  override readonly name = "JsonProblem"
}

/** Maximum nesting of arrays and objects. */
export const maxDepth = 128

const escapes: Readonly<Record<string, string>> = {
  '"': '"',
  "\\": "\\",
  "/": "/",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t"
}

const decode = (bytes: Uint8Array): string => {
  try {
    // A byte order mark stays in the text, where it is a syntax error.
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw new JsonProblem("invalid UTF-8")
  }
}

const isHigh = (unit: number) => unit >= 0xd800 && unit <= 0xdbff
const isLow = (unit: number) => unit >= 0xdc00 && unit <= 0xdfff

class Reader {
  private at = 0
  private readonly text: string
  private readonly refuseDuplicates: boolean

  constructor(text: string, refuseDuplicates: boolean) {
    this.text = text
    this.refuseDuplicates = refuseDuplicates
  }

  document(): Json {
    const value = this.value(0)
    this.space()
    if (this.at < this.text.length) this.fail("trailing data")
    return value
  }

  private fail(problem: string): never {
    throw new JsonProblem(`${problem} at offset ${this.at}`)
  }

  private match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at
    const found = pattern.exec(this.text)?.[0]
    if (found !== undefined) this.at += found.length
    return found
  }

  private space(): void {
    this.match(/[ \t\n\r]*/y)
  }

  private take(mark: string): boolean {
    this.space()
    if (this.text[this.at] !== mark) return false
    this.at += 1
    return true
  }

  private value(depth: number): Json {
    this.space()
    switch (this.text[this.at]) {
      case "{":
        return this.object(this.deeper(depth))
      case "[":
        return this.array(this.deeper(depth))
      case '"':
        return { kind: "literal", value: this.string() }
      default:
        return this.scalar()
    }
  }

  private deeper(depth: number): number {
    if (depth >= maxDepth) this.fail("nested too deeply")
    this.at += 1
    return depth + 1
  }

  private object(depth: number): Json {
    const fields = new Map<string, Json>()
    if (this.take("}")) return { kind: "object", fields }
    do {
      this.space()
      if (this.text[this.at] !== '"') this.fail("expected a key")
      const key = this.string()
      if (this.refuseDuplicates && fields.has(key)) this.fail("duplicate key")
      if (!this.take(":")) this.fail("expected a colon")
      fields.set(key, this.value(depth))
    } while (this.take(","))
    if (!this.take("}")) this.fail("expected the end of an object")
    return { kind: "object", fields }
  }

  private array(depth: number): Json {
    const items: Array<Json> = []
    if (this.take("]")) return { kind: "array", items }
    do items.push(this.value(depth))
    while (this.take(","))
    if (!this.take("]")) this.fail("expected the end of an array")
    return { kind: "array", items }
  }

  private string(): string {
    this.at += 1
    let value = ""
    for (;;) {
      // biome-ignore lint/suspicious/noControlCharactersInRegex: raw control characters are what a JSON string may not hold
      value += this.match(/[^"\\\u0000-\u001f]*/y) ?? ""
      if (this.text[this.at] === '"') break
      if (this.text[this.at] !== "\\") this.fail("unfinished string")
      this.at += 1
      value += this.escape()
    }
    this.at += 1
    return value
  }

  private escape(): string {
    const mark = this.text[this.at] ?? ""
    const simple = escapes[mark]
    if (simple !== undefined) {
      this.at += 1
      return simple
    }
    const unit = this.unit()
    if (isLow(unit)) this.fail("lone surrogate")
    if (!isHigh(unit)) return String.fromCharCode(unit)
    if (this.text[this.at] !== "\\") this.fail("lone surrogate")
    this.at += 1
    const second = this.unit()
    if (!isLow(second)) this.fail("lone surrogate")
    return String.fromCharCode(unit, second)
  }

  private unit(): number {
    const escape = this.match(/u[0-9a-fA-F]{4}/y)
    if (escape === undefined) this.fail("bad escape")
    return Number.parseInt(escape.slice(1), 16)
  }

  private scalar(): Json {
    const word = this.match(/(?:true|false|null)(?![A-Za-z0-9_])/y)
    if (word !== undefined) return { kind: "literal", value: word === "null" ? null : word === "true" }
    const text = this.match(/-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y)
    if (text === undefined) this.fail("expected a value")
    if (!Number.isFinite(Number(text))) this.fail("number out of range")
    return { kind: "number", text }
  }
}

/** Reads one JSON document. Throws {@link JsonProblem}. */
export const parseJson = (
  bytes: Uint8Array,
  options: { readonly duplicateKeys: "refuse" | "last" } = { duplicateKeys: "refuse" }
): Json => new Reader(decode(bytes), options.duplicateKeys === "refuse").document()

/** Whether a number is written as a 64-bit integer: no fraction, no exponent, in range. */
export const isInteger64 = (json: Json): boolean => {
  if (json.kind !== "number" || !/^-?[0-9]+$/.test(json.text) || json.text === "-0") return false
  if (json.text.length < 16) return true
  const value = BigInt(json.text)
  return value >= -(2n ** 63n) && value < 2n ** 63n
}

const canonicalNumber = (text: string): string => {
  if (/^-?[0-9]+$/.test(text) && text !== "-0") {
    const value = BigInt(text)
    if (value >= -(2n ** 63n) && value < 2n ** 64n) return text
  }
  const value = Number(text)
  if (!Number.isInteger(value)) return String(value)
  if (Math.abs(value) >= 1e16) return value.toExponential().replace("e+", "e")
  return `${Object.is(value, -0) ? "-0" : value}.0`
}

/** Compact text with sorted keys. Equal content has equal text, and only equal content. */
export const canonical = (json: Json): string => {
  switch (json.kind) {
    case "literal":
      return JSON.stringify(json.value)
    case "number":
      return canonicalNumber(json.text)
    case "array":
      return `[${json.items.map(canonical).join(",")}]`
    case "object":
      return `{${[...json.fields]
        .sort(([left], [right]) => (left < right ? -1 : 1))
        .map(([key, value]) => `${JSON.stringify(key)}:${canonical(value)}`)
        .join(",")}}`
  }
}

/** The plain value, numbers as doubles. */
export const plain = (json: Json): unknown => {
  switch (json.kind) {
    case "literal":
      return json.value
    case "number":
      return Number(json.text)
    case "array":
      return json.items.map(plain)
    case "object":
      return Object.fromEntries([...json.fields].map(([key, value]) => [key, plain(value)]))
  }
}

/** The text of a string, or `undefined` for anything else. */
export const textOf = (json: Json | undefined): string | undefined =>
  json?.kind === "literal" && typeof json.value === "string" ? json.value : undefined
