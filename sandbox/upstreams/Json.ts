/** JSON of request bodies: strict UTF-8, and canonical text for sizes and digests. */

export type JsonObject = Readonly<Record<string, unknown>>

export const isRecord = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The value, or `undefined` when the bytes are not JSON in UTF-8. JSON itself never yields `undefined`. */
export const parseJson = (bytes: Uint8Array): unknown => {
  try {
    // A byte order mark stays in the text, where it is a syntax error.
    return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes))
  } catch {
    return undefined
  }
}

/** Compact text with sorted keys: equal content has equal text. */
export const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, inner: unknown) =>
    isRecord(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([left], [right]) => (left < right ? -1 : 1)))
      : inner
  )
