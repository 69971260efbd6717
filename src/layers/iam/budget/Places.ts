/**
 * The places of one window, counted by share and by key, so that a call costs the same however many are taken. Plain
 * bookkeeping without effects; times are monotonic milliseconds.
 */
import type { Share } from "./Shares.ts"

/** One call in a window: out now, answered in the last 60 s, or reserved. */
export interface Place {
  /** Plane and path. */
  readonly window: string
  readonly key: string | undefined
  /** The actor whose credential it is, over all logins; undefined while unknown. */
  readonly owner?: string | undefined
  readonly share: Share
  /** Infinite while the call is out. Only `Places.endAt` sets another time. */
  freeAt: number
  /** Until then it counts against the bound of its key. */
  ownUntil: number
  /** Kept for one more call of the same credential. */
  reserved: boolean
  takenAt: number
  /** Its credential came back at its retry time (`Turns`). */
  readonly patient?: boolean
}

export interface Places {
  readonly size: () => number
  readonly has: (place: Place) => boolean
  readonly add: (place: Place) => void
  readonly remove: (place: Place) => void
  /** The place is free at this time, which is never before that of an earlier call of this function. */
  readonly endAt: (place: Place, freeAt: number) => void
  readonly removeExpired: (now: number) => void
  readonly heldBy: (share: Share) => number
  readonly ofKey: (key: string) => Iterable<Place>
  readonly countOfOwner: (owner: string) => number
  readonly all: () => Iterable<Place>
}

/** Past entries of the queue before it is cut. */
const maxPast = 1_024

export const makePlaces = (): Places => {
  const places = new Set<Place>()
  const byKey = new Map<string, Set<Place>>()
  const byOwner = new Map<string, number>()
  const held: Record<Share, number> = { essential: 0, known: 0, newcomer: 0, suspect: 0 }
  /** In the order of their times. A place that was taken again since has a later time. */
  let ending: Array<{ readonly place: Place; readonly at: number }> = []
  let past = 0

  const countOwner = ({ owner }: Place, change: 1 | -1): void => {
    if (owner === undefined) return
    const count = (byOwner.get(owner) ?? 0) + change
    if (count === 0) byOwner.delete(owner)
    else byOwner.set(owner, count)
  }

  const remove = (place: Place): void => {
    if (!places.delete(place)) return
    held[place.share] -= 1
    countOwner(place, -1)
    if (place.key === undefined) return
    const own = byKey.get(place.key)
    if (own?.delete(place) && own.size === 0) byKey.delete(place.key)
  }

  return {
    size: () => places.size,
    has: (place) => places.has(place),
    add: (place) => {
      places.add(place)
      held[place.share] += 1
      countOwner(place, 1)
      if (place.key === undefined) return
      const own = byKey.get(place.key)
      if (own === undefined) byKey.set(place.key, new Set([place]))
      else own.add(place)
    },
    remove,
    endAt: (place, freeAt) => {
      place.freeAt = freeAt
      ending.push({ place, at: freeAt })
    },
    removeExpired: (now) => {
      for (let first = ending[past]; first !== undefined && first.at <= now; first = ending[past]) {
        if (first.place.freeAt <= now) remove(first.place)
        past += 1
      }
      if (past < maxPast || past * 2 < ending.length) return
      ending = ending.slice(past)
      past = 0
    },
    heldBy: (share) => held[share],
    ofKey: (key) => byKey.get(key) ?? [],
    countOfOwner: (owner) => byOwner.get(owner) ?? 0,
    all: () => places
  }
}
