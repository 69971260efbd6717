/** Texts that occur nowhere else: each names its request and its place, so that a copy in an answer, a log line or a row is found. */

/** Values of a body, names of its fields, request headers, request targets. */
export type Place = "body" | "name" | "header" | "path"

const letters: Readonly<Record<Place, string>> = { body: "b", name: "n", header: "h", path: "p" }

/** Lower-case letters and digits, so that it fits into every place. */
export const makeCanary = (place: Place, index: number): string =>
  `zqx7${letters[place]}${index.toString(36).padStart(6, "0")}7xqz`

export interface Found {
  readonly place: string
  readonly index: number
}

const pattern = /zqx7([bnhp])([0-9a-z]{6})7xqz/gi

/** The beginning or the end of a canary. */
export const canaryPart = /zqx7|7xqz/i

/** Every canary of a text, each once. */
export const findCanaries = (text: string): ReadonlyArray<Found> => {
  const found = new Map<string, Found>()
  for (const [whole, place = "", index = ""] of text.matchAll(pattern))
    found.set(whole, { place: place.toLowerCase(), index: Number.parseInt(index.toLowerCase(), 36) })
  return [...found.values()]
}
