/** Texts in records and in the state have a bound, so that neither the memory nor a stream is filled by a few large ones. */

const mark = (bytes: number): string => `… [cut: ${bytes} bytes in all]`

/** The text, or its beginning with a mark. `limit` in characters. */
export const cut = (text: string, limit: number): string =>
  text.length <= limit ? text : `${text.slice(0, limit)}${mark(Buffer.byteLength(text))}`

const shown = new WeakMap<object, unknown>()
const longestValue = 16_384

/** A value of JSON, or the beginning of its text when that is long. */
export const cutJson = (value: unknown): unknown => {
  if (typeof value === "string") return cut(value, longestValue)
  if (typeof value !== "object" || value === null) return value
  const known = shown.get(value)
  if (known !== undefined) return known
  const text = JSON.stringify(value)
  const result = text.length <= longestValue ? value : cut(text, longestValue)
  shown.set(value, result)
  return result
}

/** Of the body of a request or response in a record. */
export const longestBody = 65_536
