/** The field formats of notification-service.md 5, and readers of typed fields of a strict JSON object. */
import { randomBytes } from "node:crypto"
import { type Json, textOf } from "../StrictJson.ts"
import { invalidInput } from "./Errors.ts"

export type Fields = ReadonlyMap<string, Json>

const appId = /^[a-z][a-z0-9_-]{0,79}$/
const part = /^[a-z][a-z0-9_-]*$/
const carbonId = /^c:[a-z0-9_-]{3,30}$/
const siliconId = /^si:[a-z0-9_-]{3,50}$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: these texts may not contain control characters
const controls = /[\u0000-\u001f\u007f-\u009f]/

const boundedText = (text: string, bytes: number): boolean =>
  text.length > 0 && Buffer.byteLength(text) <= bytes && !controls.test(text)

export const isAppId = (text: string): boolean => appId.test(text)
export const isOrgId = (text: string): boolean => boundedText(text, 255)
export const isKey = (text: string): boolean => boundedText(text, 200)

export const isType = (text: string): boolean => {
  const [app = "", service = "", event = "", ...rest] = text.split(".")
  return (
    Buffer.byteLength(text) <= 255 &&
    rest.length === 0 &&
    isAppId(app) &&
    part.test(service) &&
    part.test(event)
  )
}

export type ActorKind = "carbon" | "silicon"

/** The kind of an actor id by its prefix; `undefined` when the id is malformed. */
export const actorKind = (id: string): ActorKind | undefined =>
  carbonId.test(id) ? "carbon" : siliconId.test(id) ? "silicon" : undefined

export const isActor = (text: string): boolean => actorKind(text) !== undefined

/** An opaque id: prefix, `_`, 32 lower-case hex. */
export const newId = (prefix: "sub" | "msg" | "req"): string => `${prefix}_${randomBytes(16).toString("hex")}`

/** Refuses unknown fields and missing required ones. */
export const exactly = (
  fields: Fields,
  required: ReadonlyArray<string>,
  optional: ReadonlyArray<string> = []
): void => {
  for (const name of fields.keys())
    if (!required.includes(name) && !optional.includes(name))
      throw invalidInput("the body has an unknown field")
  for (const name of required) if (!fields.has(name)) throw invalidInput(`${name} is required`)
}

/** A string field that fits. An absent field or another kind of value is `invalid_input`. */
export const text = (fields: Fields, name: string, fits: (value: string) => boolean): string => {
  const value = textOf(fields.get(name))
  if (value === undefined || !fits(value)) throw invalidInput(`${name} is not acceptable`)
  return value
}

export const optionalText = (
  fields: Fields,
  name: string,
  fits: (value: string) => boolean
): string | undefined => (fields.has(name) ? text(fields, name, fits) : undefined)

export const objectField = (fields: Fields, name: string): Json => {
  const value = fields.get(name)
  if (value?.kind !== "object") throw invalidInput(`${name} must be an object`)
  return value
}
