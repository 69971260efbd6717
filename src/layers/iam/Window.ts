/**
 * One sliding window of calls to IAM: who has a place, and who waits for one. Plain bookkeeping without effects; times are monotonic
 * milliseconds.
 */
import { putBounded } from "../../services/BoundedMap.ts"

/** Part of the budget that calls of every class together may have taken before a call of this class; the highest class first. */
const parts = { essential: 1, known: 0.85, newcomer: 0.5 } as const
export type CallClass = keyof typeof parts
export const callClasses = Object.keys(parts) as ReadonlyArray<CallClass>

/** Calls up to which a call of this class finds a place. */
export const ceilingOf = (callClass: CallClass, budget: number): number =>
  Math.max(1, Math.floor(budget * parts[callClass]))

const minute = 60_000
/** The budget for which the bounds are written; another budget scales them. */
const usualBudget = 110
/** Calls a minute of one login, and of one actor over all logins. */
const bounds = { login: 30, actor: 30 }
/** The same for refreshes and logouts, which count apart. */
const boundsOfKeeping = { login: 8, actor: 15 }
/** A call without an answer counts against its login and actor for a shorter time, so that an outage has no aftermath. */
const unansweredMillis = 15_000
/** Part of the budget for the logins of one address that are not newcomers. */
const loginsOfAddress = 0.4
/** The least share of an address in the places of newcomers. */
const leastOfAddress = 2
/** Addresses of newcomers that are counted. */
const mostAddresses = 20_000
/** While IAM blocks a path, one call in this many milliseconds probes it. */
const probeMillis = 5_000

/** Milliseconds after its time in which a turn lasts. */
export const turnGrace = 10_000
/** Milliseconds in which all places change hands once: `Retry-After` is in whole seconds, so callers come a little after their turn. */
const roundMillis = minute + 2_000
/** Turns of one party at one time, and of one window. */
const turnsOfParty = 2
const mostTurns = 1_000
/** No turn lies further ahead. */
const farthestTurn = { vouched: 15 * minute, other: minute }

/** A call before it begins. */
export interface Claim {
  readonly callClass: CallClass
  /** The credential; undefined for the application's own calls. */
  readonly key: string | undefined
  readonly login: string | undefined
  readonly actor: string | undefined
  /** Empty where addresses are not counted. */
  readonly address: string
  readonly isVouched: boolean
  readonly use: "login" | "refresh" | "logout" | undefined
  /** The first refusal of a credential that waits for a place; the present for any other. */
  readonly since: number
}

/** A call that is out, or was answered in the last 60 s; or one that is kept for the introspection that completes an exchange. */
export interface Place {
  readonly claim: Claim
  startedAt: number
  /** Infinite while the call is out. */
  freeAt: number
  /** Until then it counts against its login and actor. */
  ownUntil: number
  isKept: boolean
  /** IAM accepted a credential that was not vouched for: the call costs its address nothing. */
  isAccepted: boolean
}

/** A call that was refused for lack of a place, and the time from which a place is kept for it. */
type Turn = Claim & { readonly at: number }

/** A call that may not begin before `at`. One that `lacksPlace` may wait in turn; any other is held back by a bound or a pause. */
interface Delay {
  readonly at: number
  readonly lacksPlace: boolean
}

/** Those among whom the places are shared. */
const partyOf = ({ actor, address, isVouched, key, login }: Claim): string | undefined =>
  isVouched ? (actor ?? login) : address === "" ? key : address

const isKeeping = ({ use }: Claim): boolean => use === "refresh" || use === "logout"

const byWait = (one: Turn, other: Turn): number => one.since - other.since

const ascending = (times: ReadonlyArray<number>): ReadonlyArray<number> =>
  times.toSorted((one, other) => one - other)

/** A call of another process, of which only the time is known. */
const elsewhere: Claim = {
  callClass: "known",
  key: undefined,
  login: undefined,
  actor: undefined,
  address: "",
  isVouched: false,
  use: undefined,
  since: 0
}

export const makeWindow = (budget: number) => {
  const places = new Set<Place>()
  const turns = new Map<string, Turn>()
  /** When each address of newcomers asked last, the oldest first. */
  const asked = new Map<string, number>()
  const pause = { until: 0, beganAt: 0, nextProbeAt: 0 }

  const removeExpired = (now: number): void => {
    for (const place of places) if (place.freeAt <= now) places.delete(place)
    for (const [key, { at }] of turns) if (at + turnGrace < now) turns.delete(key)
    for (const [address, at] of asked) {
      if (at + minute > now) break
      asked.delete(address)
    }
  }

  /** When the pause lets a call of this class begin. */
  const opensAt = ({ callClass }: Claim, now: number): number =>
    callClass !== "newcomer" && now >= pause.nextProbeAt ? now : Math.max(now, pause.until)

  /** When the login and the actor may make their next call. */
  const boundsOpenAt = (claim: Claim, now: number): number => {
    const most = isKeeping(claim) ? boundsOfKeeping : bounds
    const opens = (["login", "actor"] as const).map((name) => {
      if (claim[name] === undefined) return now
      const own = [...places].filter(
        (place) =>
          place.claim[name] === claim[name] &&
          place.ownUntil > now &&
          isKeeping(place.claim) === isKeeping(claim)
      )
      const bound = Math.max(1, Math.ceil((most[name] * budget) / usualBudget))
      return ascending(own.map(({ ownUntil }) => Math.min(ownUntil, now + minute)))[own.length - bound] ?? now
    })
    return Math.max(...opens)
  }

  /** The turns of the class that are before this call in the line, which is ordered by the time waited. */
  const turnsBefore = (claim: Claim): ReadonlyArray<Turn> => {
    const rivals = [...turns.values()].filter(
      ({ callClass, key }) => callClass === claim.callClass && key !== claim.key
    )
    if (rivals.length === 0) return []
    const own: Turn = { ...claim, at: Number.POSITIVE_INFINITY }
    const line = [...rivals, own].sort(byWait)
    const inOrder = claim.callClass === "newcomer" ? byCalls(line) : line
    return inOrder.slice(0, inOrder.indexOf(own))
  }

  /**
   * The line of newcomers: first those of an address with fewer calls in the window, of which its earlier turns are some. Calls whose
   * credential IAM accepted do not count.
   */
  const byCalls = (line: ReadonlyArray<Turn>): ReadonlyArray<Turn> => {
    const calls = new Map<string | undefined, number>()
    /** The calls of the party before this one. */
    const rank = (one: Claim): number => {
      const before = calls.get(partyOf(one)) ?? 0
      calls.set(partyOf(one), before + 1)
      return before
    }
    for (const { claim, isAccepted } of places) if (claim.callClass === "newcomer" && !isAccepted) rank(claim)
    return line
      .map((one) => ({ one, rank: rank(one) }))
      .sort((one, other) => one.rank - other.rank)
      .map(({ one }) => one)
  }

  /** What the call needs a place in: the window, and the part of its address. */
  const limitsOf = ({ address, callClass, use }: Claim) => {
    const isNewcomer = callClass === "newcomer"
    const ceiling = ceilingOf(callClass, budget)
    const whole = { most: ceiling, isOfNewcomers: false, isOf: (_: Claim) => true }
    if (address === "" || !(isNewcomer || (callClass === "known" && use === "login"))) return [whole]
    const part = isNewcomer
      ? Math.max(leastOfAddress, ceiling / Math.max(1, asked.size))
      : Math.max(1, loginsOfAddress * budget)
    const isOf = (other: Claim) =>
      other.address === address && other.callClass === callClass && (isNewcomer || other.use === "login")
    return [whole, { most: Math.floor(part), isOfNewcomers: isNewcomer, isOf }]
  }

  /** Why the call may not begin now; undefined when it may. */
  const delayOf = (claim: Claim, now: number): Delay | undefined => {
    removeExpired(now)
    if (claim.callClass === "newcomer" && claim.address !== "")
      putBounded(asked, claim.address, now, mostAddresses)
    const opens = Math.max(boundsOpenAt(claim, now), opensAt(claim, now))
    if (opens > now) return { at: opens, lacksPlace: false }
    const before = turnsBefore(claim)
    const later = limitsOf(claim).flatMap(({ isOf, isOfNewcomers, most }) => {
      const held = [...places].filter((place) => isOf(place.claim) && !(isOfNewcomers && place.isAccepted))
      const waiting = before.filter(isOf)
      if (held.length + waiting.filter(({ at }) => at <= now).length < most) return []
      // Places of essential calls are expected to go to essential calls again, unless those came in a burst.
      const others = held.filter((place) => place.claim.callClass !== "essential")
      const inherited = claim.callClass === "essential" || others.length * 4 < most ? held : others
      const ends = ascending(inherited.map(({ freeAt }) => Math.min(freeAt, now + minute)))
      const index = waiting.length + held.length - most
      const rounds = Math.floor(index / Math.max(1, ends.length))
      return [(ends[index % Math.max(1, ends.length)] ?? now + minute) + rounds * roundMillis]
    })
    return later.length === 0 ? undefined : { at: Math.max(...later), lacksPlace: true }
  }

  const begin = (claim: Claim, now: number): Place => {
    const place: Place = {
      claim,
      startedAt: now,
      freeAt: Number.POSITIVE_INFINITY,
      ownUntil: Number.POSITIVE_INFINITY,
      isKept: false,
      isAccepted: false
    }
    places.add(place)
    if (claim.key !== undefined) turns.delete(claim.key)
    pause.nextProbeAt = now + probeMillis
    return place
  }

  return {
    delayOf,
    begin,
    turnOf: (key: string): number | undefined => turns.get(key)?.at,
    /** Takes a turn for a call that lacks a place until `at`: true if one is left. */
    takeTurn: (claim: Claim, at: number, now: number): boolean => {
      if (claim.key === undefined) return false
      turns.delete(claim.key)
      const isOfParty = (other: Claim) =>
        other.callClass === claim.callClass && partyOf(other) === partyOf(claim)
      const before = turnsBefore(claim).filter(isOfParty).length
      const farthest = now + farthestTurn[claim.isVouched ? "vouched" : "other"]
      if (before >= turnsOfParty || turns.size >= mostTurns || at > farthest) return false
      // A credential that has waited longer takes the turn of one that has waited less.
      const after = [...turns.values()]
        .filter(isOfParty)
        .sort(byWait)
        .slice(turnsOfParty - 1)
      for (const { key } of after) if (key !== undefined) turns.delete(key)
      turns.set(claim.key, { ...claim, at })
      return true
    },
    /** Begins the call for which the place is kept; undefined when the place is lost or used. */
    beginKept: (place: Place, now: number): Delay | Place | undefined => {
      removeExpired(now)
      if (!place.isKept || !places.has(place)) return undefined
      // A place that was taken in the pause is that of the probe.
      const at = place.startedAt > pause.beganAt ? now : opensAt(place.claim, now)
      if (at > now) return { at, lacksPlace: false }
      places.delete(place)
      return begin(place.claim, now)
    },
    end: (place: Place, now: number, outcome: "accepted" | "refused" | "unanswered"): void => {
      place.freeAt = now + minute
      place.ownUntil = now + (outcome === "unanswered" ? unansweredMillis : minute)
      place.isAccepted = outcome === "accepted" && !place.claim.isVouched
    },
    keep: (place: Place, now: number): void => {
      place.isKept = true
      place.freeAt = now + minute
      place.ownUntil = now + minute
    },
    cancel: (place: Place): void => void places.delete(place),
    /** Takes a place for a call of another process. */
    occupy: (freeAt: number): void => {
      places.add({ claim: elsewhere, startedAt: 0, freeAt, ownUntil: 0, isKept: false, isAccepted: false })
    },
    /** When each place is free; infinite for a call that is out. */
    freeTimes: (now: number): ReadonlyArray<number> => {
      removeExpired(now)
      return [...places].map(({ freeAt }) => freeAt)
    },
    isIdle: (now: number): boolean => {
      removeExpired(now)
      return places.size + turns.size === 0 && pause.until <= now
    },
    /** IAM answered 429 with these seconds. Of several pauses the longest holds. */
    block: (seconds: number, now: number): void => {
      pause.until = Math.max(pause.until, now + seconds * 1_000)
      pause.beganAt = now
      pause.nextProbeAt = now + probeMillis
    },
    /** A call that began at this time succeeded. One that began after a pause did ends it. */
    unblock: (startedAt: number): void => {
      if (startedAt > pause.beganAt) pause.until = 0
    }
  }
}
export type Window = ReturnType<typeof makeWindow>
