/** The field formats of notification-service.md 5, and readers of typed fields of a JSON object. */
import { randomBytes } from "node:crypto"
import { isRecord, type JsonObject } from "../Json.ts"
import { invalidInput } from "./Errors.ts"

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

export const isActor = (id: string): boolean => carbonId.test(id) || siliconId.test(id)

/** An opaque id: prefix, `_`, 32 lower-case hex. */
export const newId = (prefix: "sub" | "msg" | "req"): string => `${prefix}_${randomBytes(16).toString("hex")}`

/** Refuses unknown fields and missing required ones. */
export const exactly = (
  fields: JsonObject,
  required: ReadonlyArray<string>,
  optional: ReadonlyArray<string> = []
): void => {
  for (const name of Object.keys(fields))
    if (!required.includes(name) && !optional.includes(name))
      throw invalidInput("the body has an unknown field")
  for (const name of required) if (!Object.hasOwn(fields, name)) throw invalidInput(`${name} is required`)
}

/** A string field that fits. An absent field or another kind of value is `invalid_input`. */
export const text = (fields: JsonObject, name: string, fits: (value: string) => boolean): string => {
  const value = fields[name]
  if (typeof value !== "string" || !fits(value)) throw invalidInput(`${name} is not acceptable`)
  return value
}

export const optionalText = (
  fields: JsonObject,
  name: string,
  fits: (value: string) => boolean
): string | undefined => (Object.hasOwn(fields, name) ? text(fields, name, fits) : undefined)

export const objectField = (fields: JsonObject, name: string): JsonObject => {
  const value = fields[name]
  if (!isRecord(value)) throw invalidInput(`${name} must be an object`)
  return value
}
