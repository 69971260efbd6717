/** Stored tings as their readers see them, within retention (notification-service.md 7 and 10). */
import { type Json, textOf } from "../StrictJson.ts"
import type { Org, Plane, Ting } from "./Model.ts"
import { invalidInput } from "./Refusal.ts"

export const tingView = (ting: Ting) => ({
  id: ting.id,
  created_at: ting.created_at,
  type: ting.type,
  data: ting.data,
  metadata: ting.metadata,
  for: ting.for,
  key: ting.key,
  silent: ting.silent,
  read: ting.read
})

/** The same day and time some calendar months later, or the last day of that month. */
const monthsLater = (at: number, months: number): number => {
  const date = new Date(at)
  const day = date.getUTCDate()
  date.setUTCMonth(date.getUTCMonth() + months)
  if (date.getUTCDate() !== day) date.setUTCDate(0)
  return date.getTime()
}

/** 1 calendar month if read or silent, 3 if not, from creation. */
const retained = (ting: Ting, now: number): boolean =>
  now < monthsLater(ting.createdAt, ting.read || ting.silent ? 1 : 3)

export interface Filter {
  readonly org: Org
  readonly for?: string | undefined
  readonly appId?: string | undefined
  readonly type?: string | undefined
  readonly read?: boolean | undefined
  readonly silent?: boolean | undefined
}

/** Matching tings, newest first. */
export const tingsOf = (plane: Plane, now: number, filter: Filter): ReadonlyArray<Ting> =>
  plane.tings
    .filter(
      (ting) =>
        ting.org === filter.org &&
        (filter.for === undefined || ting.for === filter.for) &&
        (filter.appId === undefined || ting.appId === filter.appId) &&
        (filter.type === undefined || ting.type === filter.type) &&
        (filter.read === undefined || ting.read === filter.read) &&
        (filter.silent === undefined || ting.silent === filter.silent) &&
        retained(ting, now)
    )
    .reverse()

/** The name under which a cursor remembers its list, so that it can't be used with other filters. */
export const listName = (reader: string, filter: Filter): string =>
  JSON.stringify([
    reader,
    filter.org.handle,
    filter.for,
    filter.appId,
    filter.type,
    filter.read,
    filter.silent
  ])

/** 1 to 100 message ids of a body. */
export const messageIds = (json: Json | undefined): ReadonlyArray<string> => {
  const ids = json?.kind === "array" ? json.items.map(textOf) : []
  const texts = ids.filter((id) => id !== undefined)
  if (texts.length !== ids.length || ids.length < 1 || ids.length > 100)
    throw invalidInput("message_ids must be 1 to 100 ids")
  return texts
}

/** Marks all of them read, or none: `undefined` when one is not among the given list. */
export const markRead = (
  among: ReadonlyArray<Ting>,
  ids: ReadonlyArray<string>
): { readonly message_ids: ReadonlyArray<string>; readonly read: true } | undefined => {
  const found = ids.map((id) => among.find((ting) => ting.id === id))
  if (found.some((ting) => ting === undefined)) return undefined
  for (const ting of found) if (ting !== undefined) ting.read = true
  return { message_ids: ids, read: true }
}
