/** The grammars of notification-service.md 5, and reading typed fields off a strict JSON object. */
import { randomBytes } from "node:crypto"
import { type Json, textOf } from "../StrictJson.ts"
import { invalidInput } from "./Refusal.ts"

export type Fields = ReadonlyMap<string, Json>

const appId = /^[a-z][a-z0-9_-]{0,79}$/
const part = /^[a-z][a-z0-9_-]*$/
const carbonId = /^c:[a-z0-9_-]{3,30}$/
const siliconId = /^si:[a-z0-9_-]{3,50}$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what these texts may not hold
const controls = /[\u0000-\u001f\u007f-\u009f]/

const boundedText = (text: string, bytes: number): boolean =>
  text.length > 0 && Buffer.byteLength(text) <= bytes && !controls.test(text)

export const isAppId = (text: string): boolean => appId.test(text)
export const isService = (text: string): boolean => part.test(text)
export const isOrgId = (text: string): boolean => boundedText(text, 255)
export const isKey = (text: string): boolean => boundedText(text, 200)
export const isDescription = (text: string): boolean => text.trim() !== "" && Buffer.byteLength(text) <= 1000

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

/** The kind that an actor id's prefix claims; `undefined` when the id is not one. */
export const actorKind = (id: string): ActorKind | undefined =>
  carbonId.test(id) ? "carbon" : siliconId.test(id) ? "silicon" : undefined

export const isActor = (text: string): boolean => actorKind(text) !== undefined

const cursorId = /^cur_[0-9a-f]{32}$/
export const isCursor = (text: string): boolean => cursorId.test(text)

/** An opaque id: prefix, `_`, 32 lower-case hex. */
export const newId = (prefix: "sub" | "msg" | "cur" | "req"): string =>
  `${prefix}_${randomBytes(16).toString("hex")}`

/** Refuses fields outside `known`, and absent ones of `required`. */
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

/** A string field that fits; its absence or another kind of value is `invalid_input`. */
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

export const flag = (fields: Fields, name: string): boolean => {
  const value = fields.get(name)
  if (value?.kind !== "literal" || typeof value.value !== "boolean")
    throw invalidInput(`${name} must be true or false`)
  return value.value
}

export const optionalFlag = (fields: Fields, name: string): boolean | undefined =>
  fields.has(name) ? flag(fields, name) : undefined

export const objectField = (fields: Fields, name: string): Json => {
  const value = fields.get(name)
  if (value?.kind !== "object") throw invalidInput(`${name} must be an object`)
  return value
}

/** 1 to 100; 50 when absent. */
export const limitOf = (value: string | undefined): number => {
  if (value === undefined) return 50
  const limit = /^[0-9]{1,3}$/.test(value) ? Number(value) : 0
  if (limit < 1 || limit > 100) throw invalidInput("limit must be 1 to 100")
  return limit
}
