/**
 * The sliding-window limiter of calls to IAM, by plane and path. Plain bookkeeping without effects: the caller passes the
 * time in monotonic milliseconds.
 *
 * IAM allows the application 120 calls in 60 s for each plane and path. Beyond that it blocks the path
 * (identity-service.md 1). A call therefore takes a place when it begins, and the place is free again 60 s after the
 * response. So no 60 s of IAM's clock, wherever they begin, contain more calls than the budget.
 */

/**
 * Priorities of calls, highest first.
 * - `essential`: keeps or completes a session (refresh, the introspection after a login or refresh, logout of a known token)
 * - `known`: other calls for a credential that IAM confirmed; logins from an address without a recent refusal
 * - `newcomer`: a credential that this process does not know
 * - `suspect`: the same, from an address whose credentials IAM refused recently
 */
export const priorities = ["essential", "known", "newcomer", "suspect"] as const
export type Priority = (typeof priorities)[number]

/** Part of the budget up to which calls of a priority may fill a path. The rest stays free for higher priorities. */
const ceilings: Readonly<Record<Priority, number>> = {
  essential: 1,
  known: 0.85,
  newcomer: 0.5,
  suspect: 0.3
}
/** Newcomers get this part even above their ceiling, so that known credentials cannot shut them out. */
const newcomerFloor = 0.1
/** Suspects never hold more than this part of the budget. */
const suspectCap = 0.08
/** A credential with more calls than this in 60 s leaves part of the ceiling to credentials with fewer. */
const busyAbove = 3
const leftToOthers = 0.2

const minute = 60_000
/** While IAM blocks a path, one essential or known call in this many milliseconds probes it. */
const probePause = 5_000
/** Milliseconds for which a promised place is kept beyond its time. */
const promiseGrace = 10_000
/** Part of the places beside those of essential calls that may be promised. The rest is for calls without a promise. */
const promisedPart = 0.9
/** Milliseconds; no promise lies further ahead. */
const farthestPromise = 15 * minute

/** One call in a window: out now, answered in the last 60 s, or reserved. */
export interface Place {
  readonly key: string | undefined
  readonly priority: Priority
  /** Monotonic milliseconds; infinite while the call is out. */
  freeAt: number
  /** Monotonic milliseconds until which it counts against the bound of its key. */
  ownUntil: number
  /** Kept for one more call of the same credential. */
  reserved: boolean
  takenAt: number
}

export interface Claim {
  /** Plane and path. */
  readonly window: string
  readonly priority: Priority
  /** Calls with the same key share one bound; none for calls without a credential. */
  readonly key: string | undefined
  /** Calls of the key in 60 s. Essential calls are counted separately, so that frequent introspection cannot block a refresh. */
  readonly bound: number
  /** A refusal promises the key a later place. Only for known credentials: others could reserve every place and never return. */
  readonly promise: boolean
  /** The place reserved for this call. */
  readonly place?: Place | undefined
}

export type Admission =
  | { readonly _tag: "Admitted"; readonly place: Place }
  | { readonly _tag: "Refused"; readonly retryAfterSeconds: number }

interface Window {
  readonly places: Set<Place>
  /** Key of a refused credential, and the time for which it was promised a place. */
  readonly promised: Map<string, number>
  blockedUntil: number
  blockedAt: number
  probeAt: number
}

export interface CallWindows {
  readonly admit: (claim: Claim, now: number) => Admission
  /** After a response, or after the call was abandoned. `ownMillis`: time for which it counts against its key; a minute if absent. */
  readonly release: (place: Place, now: number, ownMillis?: number) => void
  /** Keeps the place for one more call, for 60 s. */
  readonly reserve: (place: Place, now: number) => void
  /** After a call that was never sent. */
  readonly cancel: (window: string, place: Place) => void
  /** IAM answered 429 on this path. */
  readonly block: (window: string, seconds: number, now: number) => void
  /** After a successful call. One that began after the block began ends the block. */
  readonly unblock: (window: string, place: Place) => void
}

const seconds = (millis: number): number => Math.max(1, Math.ceil(millis / 1_000))

const refuse = (retryAfterSeconds: number): Admission => ({ _tag: "Refused", retryAfterSeconds })

/** Places of essential calls are expected to go to essential calls again. */
const canInherit = (priority: Priority, place: Place): boolean =>
  priority === "essential" || place.priority !== "essential"

const count = <A>(values: Iterable<A>, holds: (value: A) => boolean): number => {
  let found = 0
  for (const value of values) if (holds(value)) found += 1
  return found
}

/** `windows` holds the state, by plane and path. */
export const makeCallWindows = (budget: number, windows = new Map<string, Window>()): CallWindows => {
  const part = (fraction: number): number => Math.max(1, Math.floor(budget * fraction))

  const removeExpired = (window: Window, now: number): void => {
    for (const place of window.places) if (place.freeAt <= now) window.places.delete(place)
    for (const [key, at] of window.promised) if (at + promiseGrace < now) window.promised.delete(key)
  }

  const open = (name: string, now: number): Window => {
    const found = windows.get(name)
    if (found !== undefined) {
      removeExpired(found, now)
      return found
    }
    // Testing planes come and go, so idle windows are removed.
    for (const [other, window] of windows) {
      removeExpired(window, now)
      if (window.places.size + window.promised.size === 0 && window.blockedUntil <= now) windows.delete(other)
    }
    const window = {
      places: new Set<Place>(),
      promised: new Map(),
      blockedUntil: 0,
      blockedAt: 0,
      probeAt: 0
    }
    windows.set(name, window)
    return window
  }

  const ceilingOf = ({ places }: Window, priority: Priority, own: number): number => {
    const held = count(places, (place) => place.priority === priority)
    if (priority === "suspect" && held >= part(suspectCap)) return 0
    const above = priority === "newcomer" && held < part(newcomerFloor) ? "known" : priority
    return Math.max(1, part(ceilings[above]) - (own > busyAbove ? part(leftToOthers) : 0))
  }

  /**
   * The expected time of a place for a refused call: the first place that becomes free, or, without a promise, after all
   * promised places, at the pace of the last minute. A ceiling of 0 means that the priority holds all that it may.
   */
  const nextFree = (
    { places, promised }: Window,
    priority: Priority,
    ceiling: number,
    hasPromise: boolean,
    now: number
  ): number => {
    const ends = [...places]
      .filter((place) => (ceiling === 0 ? place.priority === priority : canInherit(priority, place)))
      .map(({ freeAt }) => Math.min(freeAt, now + minute))
      .sort((one, other) => one - other)
    const first = ends[ceiling === 0 ? 0 : Math.max(0, places.size - ceiling)] ?? now + minute
    if (priority === "essential" || hasPromise) return first
    let last = 0
    for (const at of promised.values()) last = Math.max(last, at)
    const perMinute = Math.max(1, promisedPart * (ceiling - (places.size - ends.length)))
    return Math.min(Math.max(first, last + minute / perMinute), now + farthestPromise)
  }

  const admit = (claim: Claim, now: number): Admission => {
    const { bound, key, priority, window: name } = claim
    const window = open(name, now)
    const { places, promised } = window
    const important = priority === "essential" || priority === "known"
    const opensAt = important && now >= window.probeAt ? now : Math.max(now, window.blockedUntil)
    const refuseUntil = (at: number) => refuse(seconds(Math.max(at, opensAt) - now))
    const send = (place: Place): Admission => {
      window.probeAt = now + probePause
      return { _tag: "Admitted", place }
    }
    if (claim.place?.reserved === true && places.has(claim.place)) {
      if (now < opensAt) return refuseUntil(opensAt)
      claim.place.reserved = false
      claim.place.freeAt = Number.POSITIVE_INFINITY
      claim.place.takenAt = now
      return send(claim.place)
    }
    const isOwn = (place: Place): boolean =>
      place.key === key &&
      place.ownUntil > now &&
      (priority !== "essential" || place.priority === "essential")
    const own = key === undefined ? [] : [...places].filter(isOwn)
    if (own.length >= bound)
      return refuseUntil(own.reduce((earliest, { ownUntil }) => Math.min(earliest, ownUntil), now + minute))
    const promise = key === undefined ? undefined : promised.get(key)
    const ceiling = ceilingOf(window, priority, own.length)
    // A due promise may use half of what lies between the ceiling and the budget, in case essential calls were more than expected.
    const kept = promise !== undefined && promise <= now && places.size < (ceiling + budget) / 2
    const others = priority === "essential" ? 0 : count(promised, ([other, at]) => other !== key && at <= now)
    if (kept || places.size + others < ceiling) {
      if (now < opensAt) return refuseUntil(opensAt)
      const place: Place = {
        key,
        priority,
        freeAt: Number.POSITIVE_INFINITY,
        ownUntil: Number.POSITIVE_INFINITY,
        reserved: false,
        takenAt: now
      }
      places.add(place)
      if (key !== undefined && priority !== "essential") promised.delete(key)
      return send(place)
    }
    if (promise !== undefined && promise > now) return refuseUntil(promise)
    const at = Math.max(nextFree(window, priority, ceiling, promise !== undefined, now), opensAt)
    const promises =
      claim.promise && key !== undefined && own.length <= busyAbove && at < now + farthestPromise
    if (promises) promised.set(key, at)
    return refuseUntil(at)
  }

  return {
    admit,
    release: (place, now, ownMillis = minute) => {
      place.freeAt = now + minute
      place.ownUntil = now + ownMillis
    },
    reserve: (place, now) => {
      place.freeAt = now + minute
      place.ownUntil = place.freeAt
      place.reserved = true
    },
    cancel: (name, place) => void windows.get(name)?.places.delete(place),
    block: (name, blockedSeconds, now) => {
      const window = open(name, now)
      window.blockedUntil = Math.max(window.blockedUntil, now + blockedSeconds * 1_000)
      window.blockedAt = now
      window.probeAt = now + probePause
    },
    unblock: (name, { takenAt }) => {
      const window = windows.get(name)
      if (window !== undefined && takenAt > window.blockedAt) window.blockedUntil = 0
    }
  }
}
