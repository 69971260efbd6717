/** The types of an application in a plane (notification-service.md 9): registered by an operator, never removed. */
import { isAppId, isDescription, isType } from "./Grammar.ts"
import { nextSequence, type Plane, type TingType } from "./Model.ts"
import { invalidInput, Refusal } from "./Refusal.ts"

export const typeView = (type: TingType) => ({
  type: type.type,
  description: type.description,
  defaults: { carbon: true, silicon: true }
})

export const findType = (plane: Plane, appId: string, type: string): TingType | undefined => {
  const found = plane.types.get(type)
  return found?.appId === appId ? found : undefined
}

export const typesOf = (plane: Plane, appId: string): ReadonlyArray<TingType> =>
  [...plane.types.values()].filter((type) => type.appId === appId)

/** Registers a type; the same description again changes nothing, another one is `type_exists`. */
export const registerType = (
  plane: Plane,
  appId: string,
  type: string,
  description: string
): { readonly type: TingType; readonly created: boolean } => {
  if (!isAppId(appId) || !isType(type) || !type.startsWith(`${appId}.`))
    throw invalidInput("the type is not one of this application")
  if (!isDescription(description)) throw invalidInput("the description is blank or over 1000 bytes")
  const existing = plane.types.get(type)
  if (existing !== undefined) {
    if (existing.description !== description) throw new Refusal("type_exists")
    return { type: existing, created: false }
  }
  const made: TingType = { sequence: nextSequence(plane), appId, type, description }
  plane.types.set(type, made)
  return { type: made, created: true }
}

export const describeType = (plane: Plane, appId: string, type: string, description: string): TingType => {
  if (!isDescription(description)) throw invalidInput("the description is blank or over 1000 bytes")
  const found = findType(plane, appId, type)
  if (found === undefined) throw new Refusal("not_found")
  found.description = description
  return found
}
