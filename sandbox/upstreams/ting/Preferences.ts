/** Muting (notification-service.md 7): overrides for an application, a service of it, or one type; the most specific wins. */
import { nextSequence, type Org, type Plane, type Preference, type Scope } from "./Model.ts"

const sameScope = (a: Scope, b: Scope): boolean =>
  a.appId === b.appId && a.service === b.service && a.type === b.type

const owned = (plane: Plane, org: Org, actor: string) =>
  plane.preferences.filter((preference) => preference.org === org && preference.actor === actor)

export const preferenceView = (scope: Scope, enabled: boolean) => ({
  app_id: scope.appId,
  service: scope.service,
  type: scope.type,
  enabled
})

export const preferencesOf = (plane: Plane, org: Org, actor: string): ReadonlyArray<Preference> =>
  owned(plane, org, actor)

export const setPreference = (
  plane: Plane,
  org: Org,
  actor: string,
  scope: Scope,
  enabled: boolean
): void => {
  const existing = owned(plane, org, actor).find((preference) => sameScope(preference.scope, scope))
  if (existing !== undefined) existing.enabled = enabled
  else plane.preferences.push({ sequence: nextSequence(plane), org, actor, scope, enabled })
}

/** Removes an override, so that a less specific one or the default counts again. */
export const clearPreference = (plane: Plane, org: Org, actor: string, scope: Scope): void => {
  const index = plane.preferences.findIndex(
    (preference) => preference.org === org && preference.actor === actor && sameScope(preference.scope, scope)
  )
  if (index >= 0) plane.preferences.splice(index, 1)
}

/** Whether a ting of this type would be silent for the recipient now. */
export const isMuted = (plane: Plane, org: Org, actor: string, type: string): boolean => {
  const [appId = "", service = ""] = type.split(".")
  const mine = owned(plane, org, actor).filter(({ scope }) => scope.appId === appId)
  const decisive =
    mine.find(({ scope }) => scope.type === type) ??
    mine.find(({ scope }) => scope.type === null && scope.service === service) ??
    mine.find(({ scope }) => scope.type === null && scope.service === null)
  return decisive?.enabled === false
}
