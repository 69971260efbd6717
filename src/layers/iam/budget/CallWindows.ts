/**
 * The sliding-window limiter of calls to IAM, by plane and path. Plain bookkeeping without effects: the caller passes the
 * time in monotonic milliseconds.
 *
 * IAM allows the application 120 calls in 60 s for each plane and path. Beyond that it blocks the path
 * (identity-service.md 1). A call therefore takes a place when it begins, and the place is free again 60 s after the
 * response. So no 60 s of IAM's clock, wherever they begin, contain more calls than the budget.
 */
import { boundOpensAt, countsUntil, isBusy, leftToOthers, ownCalls } from "./CredentialBounds.ts"
import { makePathPause, type PathPause } from "./PathPause.ts"
import { makePlaces, type Place, type Places } from "./Places.ts"
import { ceilingOf, placesOf, type Share } from "./Shares.ts"
import { makeTurns, turnGrace } from "./Turns.ts"

const minute = 60_000
/** Part of the places beside those of essential calls that may be promised. The rest is for calls without a promise. */
const promisedPart = 0.9
/** Part of a ceiling that promises assume to be free of essential calls, however many came in the last minute: a burst ends. */
const leastPart = 0.5
/** Milliseconds; no promise lies further ahead. */
const farthestPromise = 15 * minute

export interface Claim {
  /** Plane and path. */
  readonly window: string
  readonly share: Share
  /** Calls with the same key share one bound; none for calls without a credential. */
  readonly key: string | undefined
  /** The actor of the credential, where it is known. */
  readonly owner?: string | undefined
  /** Calls of the key in 60 s (`CredentialBounds`). */
  readonly bound: number
  /** A refusal promises the key a later place. Only for known credentials: others could reserve every place and never return. */
  readonly promise: boolean
  /** A refusal gives the key a turn (`Turns`), counted for this network; empty where networks are not counted. */
  readonly turnOf?: string | undefined
  /** The place reserved for this call. */
  readonly place?: Place | undefined
}

export type Admission =
  | { readonly _tag: "Admitted"; readonly place: Place }
  | { readonly _tag: "Refused"; readonly retryAfterSeconds: number }

export interface TakenPlace {
  readonly window: string
  readonly share: Share
  readonly millis: number
}

/** A place that was promised to a refused credential. */
interface Promised {
  readonly at: number
  readonly owner: string | undefined
}

interface Window {
  readonly places: Places
  /** By the key of the credential. */
  readonly promised: Map<string, Promised>
  readonly pause: PathPause
}

export interface CallWindows {
  readonly admit: (claim: Claim, now: number) => Admission
  /** After the call, answered by default. An unanswered one counts against its key for a shorter time. */
  readonly release: (place: Place, now: number, isAnswered?: boolean) => void
  /** Keeps the place for one more call, for 60 s. */
  readonly reserve: (place: Place, now: number) => void
  /** After a call that was never sent. */
  readonly cancel: (window: string, place: Place) => void
  /** IAM answered 429 on this path. */
  readonly block: (window: string, seconds: number, now: number) => void
  /** Every place that is taken, with the milliseconds until it is free at the latest. */
  readonly taken: (now: number) => ReadonlyArray<TakenPlace>
  /** Takes places for calls that another process made. */
  readonly occupy: (calls: ReadonlyArray<TakenPlace>, now: number) => void
  /** After a successful call. One that began after the block began ends the block. */
  readonly unblock: (window: string, place: Place) => void
}

const seconds = (millis: number): number => Math.max(1, Math.ceil(millis / 1_000))

const refuse = (retryAfterSeconds: number): Admission => ({ _tag: "Refused", retryAfterSeconds })

/** Places of essential calls are expected to go to essential calls again. */
const canInherit = (share: Share, place: Place): boolean =>
  share === "essential" || place.share !== "essential"

const count = <A>(values: Iterable<A>, holds: (value: A) => boolean): number => {
  let found = 0
  for (const value of values) if (holds(value)) found += 1
  return found
}

/** `windows` holds the state, by plane and path. */
export const makeCallWindows = (budget: number, windows = new Map<string, Window>()): CallWindows => {
  const turns = makeTurns()

  const removeExpired = (window: Window, now: number): void => {
    window.places.removeExpired(now)
    for (const [key, { at }] of window.promised) if (at + turnGrace < now) window.promised.delete(key)
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
      if (window.places.size() + window.promised.size === 0 && window.pause.isOver(now)) windows.delete(other)
    }
    const window = { places: makePlaces(), promised: new Map(), pause: makePathPause() }
    windows.set(name, window)
    return window
  }

  /** The times at which the next places for calls of the share become free. A ceiling of 0 means that it holds all that it may. */
  const endsFor = ({ places }: Window, share: Share, ceiling: number, now: number): ReadonlyArray<number> =>
    [...places.all()]
      .filter((place) => (ceiling === 0 ? place.share === share : canInherit(share, place)))
      .map(({ freeAt }) => Math.min(freeAt, now + minute))
      .sort((one, other) => one - other)
      .slice(ceiling === 0 ? 0 : Math.max(0, places.size() - ceiling))

  /** Without a promise the expected time comes after all promised places, at the pace of the last minute. */
  const afterPromised = (
    { places, promised }: Window,
    share: Share,
    ceiling: number,
    first: number,
    now: number
  ): number => {
    const kept = count(places.all(), (place) => !canInherit(share, place))
    let last = 0
    for (const { at } of promised.values()) last = Math.max(last, at)
    const perMinute = Math.max(1, promisedPart * Math.max(leastPart * ceiling, ceiling - kept))
    return Math.min(Math.max(first, last + minute / perMinute), now + farthestPromise)
  }

  /** Calls of the actor over all logins. The places promised to its other logins count: each would be a call. */
  const callsOfOwner = ({ places, promised }: Window, { key, owner, share }: Claim): number =>
    // The refreshes of an actor have a quota of their own (`NetworkAndActorQuotas`).
    owner === undefined || share === "essential"
      ? 0
      : places.countOfOwner(owner) +
        count(promised, ([other, promise]) => other !== key && promise.owner === owner)

  const admit = (claim: Claim, now: number): Admission => {
    const { bound, key, share, window: name } = claim
    const window = open(name, now)
    const { pause, places, promised } = window
    const opensAt = pause.opensAt(share, now)
    const refuseUntil = (at: number) => refuse(seconds(Math.max(at, opensAt) - now))
    const send = (place: Place): Admission => {
      pause.recordCall(now)
      return { _tag: "Admitted", place }
    }
    if (claim.place?.reserved === true && places.has(claim.place)) {
      if (now < opensAt) return refuseUntil(opensAt)
      claim.place.reserved = false
      claim.place.freeAt = Number.POSITIVE_INFINITY
      claim.place.takenAt = now
      return send(claim.place)
    }
    const own = key === undefined ? [] : ownCalls(places.ofKey(key), share, now)
    const ownOpensAt = boundOpensAt(own, bound, now)
    if (ownOpensAt !== undefined) return refuseUntil(ownOpensAt)
    const promise = key === undefined ? undefined : promised.get(key)?.at
    const held = places.heldBy(share)
    const calls = { own: own.length, ofOwner: callsOfOwner(window, claim) }
    const waiting = claim.turnOf === undefined || share === "essential" ? undefined : key
    const mostTurns = Math.ceil(placesOf(share, budget) / 2)
    const comebacks = waiting === undefined ? 0 : turns.patienceOf(waiting, now)
    const usedTurns =
      comebacks > 0 ? count(places.all(), (place) => place.share === share && place.patient === true) : 0
    const patience = usedTurns < mostTurns ? comebacks : 0
    const kept =
      waiting === undefined ? 0 : turns.keptFrom({ window: name, share, key: waiting, patience }, now)
    const ceiling = ceilingOf(share, budget, held + kept, leftToOthers(calls, budget))
    // A due promise may use half of what lies between the ceiling and the budget, in case essential calls were more than expected.
    const isDue = promise !== undefined && promise <= now && places.size() < (ceiling + budget) / 2
    const others =
      share === "essential" ? 0 : count(promised, ([other, { at }]) => other !== key && at <= now)
    if (isDue || places.size() + others + kept < ceiling) {
      if (now < opensAt) return refuseUntil(opensAt)
      const place: Place = {
        window: name,
        key,
        owner: claim.owner,
        share,
        freeAt: Number.POSITIVE_INFINITY,
        ownUntil: Number.POSITIVE_INFINITY,
        reserved: false,
        takenAt: now,
        patient: patience > 0
      }
      places.add(place)
      if (waiting !== undefined) turns.use(name, waiting)
      if (key !== undefined && share !== "essential") promised.delete(key)
      return send(place)
    }
    if (promise !== undefined && promise > now) return refuseUntil(promise)
    const ends = endsFor(window, share, ceiling, now)
    if (waiting !== undefined)
      return refuseUntil(
        turns.refuse(
          { window: name, share, key: waiting, network: claim.turnOf ?? "" },
          { ends, most: mostTurns },
          now
        )
      )
    const first = ends[0] ?? now + minute
    const isNext = share === "essential" || promise !== undefined
    const at = Math.max(isNext ? first : afterPromised(window, share, ceiling, first, now), opensAt)
    const promises = claim.promise && key !== undefined && !isBusy(calls) && at < now + farthestPromise
    if (promises) promised.set(key, { at, owner: claim.owner })
    return refuseUntil(at)
  }

  const endLater = (place: Place, now: number): void =>
    windows.get(place.window)?.places.endAt(place, now + minute)

  return {
    admit,
    release: (place, now, isAnswered = true) => {
      endLater(place, now)
      place.ownUntil = countsUntil(now, isAnswered)
      if (place.key !== undefined) turns.forget(place.key)
    },
    reserve: (place, now) => {
      endLater(place, now)
      place.ownUntil = countsUntil(now, true)
      place.reserved = true
    },
    cancel: (name, place) => void windows.get(name)?.places.remove(place),
    block: (name, blockedSeconds, now) => open(name, now).pause.begin(blockedSeconds, now),
    taken: (now) =>
      [...windows].flatMap(([window, { places }]) =>
        [...places.all()]
          .map(({ freeAt, share }) => ({ window, share, millis: Math.min(freeAt - now, minute) }))
          .filter(({ millis }) => millis > 0)
      ),
    occupy: (calls, now) => {
      for (const { millis, share, window } of [...calls].sort((one, other) => one.millis - other.millis)) {
        const { places } = open(window, now)
        const place: Place = {
          window,
          key: undefined,
          share,
          freeAt: 0,
          ownUntil: 0,
          reserved: false,
          takenAt: now
        }
        places.add(place)
        places.endAt(place, now + millis)
      }
    },
    unblock: (name, { takenAt }) => windows.get(name)?.pause.recordSuccess(takenAt)
  }
}
