/**
 * The budget of calls to IAM (docs/limits.md, "The budget for IAM"). IAM allows the application 120 calls in 60 s for each plane and path,
 * and blocks every caller beyond that (identity-service.md 1). A call takes a place in the window of its plane and path when it begins; it
 * is free again 60 s after the answer, so that no 60 s of IAM's clock contain more calls. Times are monotonic milliseconds.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { putBounded } from "../../services/combinators/BoundedMap.ts"
import { iamCallsRefused, recordNow } from "../../services/Metrics.ts"
import { unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import type { PlaneId } from "../../services/Plane.ts"
import { RequestContext } from "../../services/RequestContext.ts"
import { siteOf } from "../../services/Addresses.ts"
import type { IamCalls } from "../../services/Store.ts"
import { failureOf, Refused, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import type { Credentials } from "./Credentials.ts"
import { type IamRequest, introspectPath, refusesToken } from "./IamCall.ts"

type Asked = Pick<IamRequest<never>, "completedBy" | "credential" | "operation" | "path">
type Operation = Pick<Asked, "operation">

/** A place that a stopped process had taken, by the name of its window, and milliseconds since the epoch. */
type LeftPlace = Parameters<IamCalls["leave"]>[1][number]

/** Part of the budget that calls of every class together may have taken before a call of this class. */
const ceilings = { essential: 1, known: 0.85, newcomer: 0.5 } as const
type CallClass = keyof typeof ceilings

const minute = 60_000
/** Calls a minute of one login, and of one actor over all logins, of a budget of 110; another budget scales them. */
const bounds = { login: 30, actor: 30, of: 110 }
/** The same for refreshes and logouts, which count apart. */
const boundsOfKeeping: typeof bounds = { login: 8, actor: 15, of: 110 }
/** Of one address: its part of the budget for logins that are not newcomers, and its least share in the places of newcomers. */
const ofAddress = { logins: 0.4, least: 2 }
/** After a refused login, in which those of its network are newcomers. */
const refusedLoginMillis = 5 * minute
/** While IAM blocks a path, one call in this time probes it. */
const probeMillis = 5_000
/** Entries of a map that callers fill. */
const capacity = 20_000

/** After the time that was given, in which a credential is in time. */
const grace = 10_000
/** In which all places change hands once: `Retry-After` is in whole seconds, so callers come a little after their turn. */
const roundMillis = minute + 2_000
/** Turns of one party at one time, and of one window. */
const mostTurns = { party: 2, window: 1_000 }
/** No turn lies further ahead. */
const farthestTurn = { vouched: 15 * minute, other: minute }
/** From the first refusal of a credential that is not vouched for, in which it waits: then a short-lived token has ended. */
const longestWait = 2 * minute
/** After which a credential without a turn may come back. */
const retryMillis = 5_000

interface Call extends Operation {
  readonly callClass: CallClass
  /** The credential, or the login of a vouched access token; undefined for the application's own calls. */
  readonly key?: string | undefined
  readonly login?: string | undefined
  readonly actor?: string | undefined
  /** Empty where addresses are not counted. */
  readonly address: string
  readonly isVouched: boolean
  /** The first refusal of a credential that waits for a place; the present for any other. */
  readonly since: number
}

/** Of a call that is out or was answered in the last 60 s, or kept for the introspection that completes an exchange. */
interface Place {
  readonly call: Call
  readonly startedAt: number
  /** Infinite while the call is out. */
  freeAt: number
}
type Held = { readonly window: Window; readonly place: Place; readonly keptFor?: string }

/** A call that was refused for lack of a place, and the time from which a place is kept for it. */
type Turn = Call & { readonly at: number }
type Wait = Pick<Turn, "since" | "at">

/** So many places for the calls that it is of. */
type Limit = { readonly most: number; readonly isOf: (call: Call) => boolean }

const isEssential = ({ callClass }: Call): boolean => callClass === "essential"
const isLogin = ({ operation }: Operation): boolean => operation === "exchange"
const isKeeping = ({ operation }: Operation): boolean => operation === "refresh" || operation === "revoke"
/** Those among whom the places are shared. */
const partyOf = ({ actor, address, isVouched, key, login }: Call): string | undefined =>
  isVouched ? (actor ?? login) : address === "" ? key : address
/** When each of the places is free at the earliest, the first one first. */
const endsOf = (places: ReadonlyArray<Place>, now: number): ReadonlyArray<number> =>
  places.map(({ freeAt }) => Math.min(freeAt, now + minute)).sort((one, other) => one - other)

/** The sliding window of a plane and path: who has a place, and who waits for one. */
const makeWindow = (budget: number) => {
  const places = new Set<Place>()
  const turns = new Map<string, Turn>()
  /** When each address of newcomers asked last. */
  const asked = new Map<string, number>()
  const pause = { until: 0, beganAt: 0, nextProbeAt: 0 }

  const opensAt = ({ callClass }: Call, now: number): number =>
    callClass !== "newcomer" && now >= pause.nextProbeAt ? now : Math.max(now, pause.until)

  /** The turns of the class before this call: by the time waited, of newcomers first those whose address has fewer calls. */
  const turnsBefore = (call: Call): ReadonlyArray<Turn> => {
    const rivals =
      call.callClass === "newcomer" ? [...places].filter((place) => place.call.callClass === "newcomer") : []
    const callsOf = (one: Call) => rivals.filter((place) => partyOf(place.call) === partyOf(one)).length
    const ownCalls = callsOf(call)
    return [...turns.values()].filter((one) => {
      if (one.callClass !== call.callClass || one.key === call.key) return false
      return (callsOf(one) - ownCalls || one.since - call.since) <= 0
    })
  }

  /** What the login and the actor of the call may take. */
  const boundsOf = (call: Call): ReadonlyArray<Limit> => {
    const most = isKeeping(call) ? boundsOfKeeping : bounds
    return (["login", "actor"] as const).flatMap((name) => {
      const isOf = (other: Call) => other[name] === call[name] && isKeeping(other) === isKeeping(call)
      return call[name] === undefined ? [] : [{ most: Math.ceil((most[name] * budget) / most.of), isOf }]
    })
  }

  /** What the call needs a place in: the window, and the part of its address. */
  const limitsOf = (call: Call): ReadonlyArray<Limit> => {
    const { address, callClass } = call
    const ceiling = Math.max(1, Math.floor(budget * ceilings[callClass]))
    const isNewcomer = callClass === "newcomer"
    const share = isNewcomer ? Math.max(ofAddress.least, ceiling / asked.size) : ofAddress.logins * budget
    const isShared = (one: Call) => one.callClass === callClass && (isNewcomer || isLogin(one))
    const isOfAddress = (other: Call) => isShared(other) && other.address === address
    const all = { most: ceiling, isOf: () => true }
    if (address === "" || !isShared(call)) return [all]
    return [all, { most: Math.max(1, Math.floor(share)), isOf: isOfAddress }]
  }

  /** When each limit that is reached has a place for the call, after the turns before it. */
  const reached = (limits: ReadonlyArray<Limit>, call: Call, before: ReadonlyArray<Turn>, now: number) =>
    limits.flatMap(({ isOf, most }) => {
      const held = [...places].filter((place) => isOf(place.call))
      const waiting = before.filter(isOf)
      if (held.length + waiting.filter(({ at }) => at <= now).length < most) return []
      const index = waiting.length + held.length - most
      // Places of essential calls are expected to go to essential calls again.
      const passedOn = held.filter((place) => isEssential(call) || !isEssential(place.call))
      const ends = endsOf(passedOn, now)
      const rounds = Math.floor(index / Math.max(1, ends.length))
      return [(ends[index - rounds * ends.length] ?? now + minute) + rounds * roundMillis]
    })

  const begin = (call: Call, now: number): Place => {
    const place = { call, startedAt: now, freeAt: Number.POSITIVE_INFINITY }
    places.add(place)
    if (call.key !== undefined) turns.delete(call.key)
    pause.nextProbeAt = now + probeMillis
    return place
  }

  return {
    places,
    begin,
    /** When the call may begin, if not now. One that lacks a place may wait in turn; any other is held back by a bound or a pause. */
    delayOf: (call: Call, now: number): readonly [at: number, lacksPlace: boolean] | undefined => {
      for (const place of places) if (place.freeAt <= now) places.delete(place)
      for (const [key, { at }] of turns) if (at + grace < now) turns.delete(key)
      for (const [address, at] of asked) if (at + minute <= now) asked.delete(address)
      if (call.callClass === "newcomer" && call.address !== "") putBounded(asked, call.address, now, capacity)
      const opens = Math.max(opensAt(call, now), ...reached(boundsOf(call), call, [], now))
      if (opens > now) return [opens, false]
      const later = reached(limitsOf(call), call, turnsBefore(call), now)
      return later.length === 0 ? undefined : [Math.max(...later), true]
    },
    /** Begins the call for which the place is kept, if it may begin. A place that was taken in a pause is that of its probe. */
    beginKept: (place: Place, now: number): Place | undefined => {
      const isOpen = place.startedAt > pause.beganAt || opensAt(place.call, now) <= now
      return isOpen && place.freeAt > now && places.delete(place) ? begin(place.call, now) : undefined
    },
    /** Takes a turn for a call that lacks a place until `at`, or keeps the one that is still to come: its time, if one is left. */
    takeTurn: (key: string, call: Call, at: number, now: number): number | undefined => {
      const own = turns.get(key)?.at ?? now
      if (own > now) return own
      turns.delete(key)
      if (turns.size >= mostTurns.window || at > now + farthestTurn[call.isVouched ? "vouched" : "other"])
        return undefined
      const ofParty = [...turns]
        .filter(([, one]) => one.callClass === call.callClass && partyOf(one) === partyOf(call))
        .sort(([, one], [, other]) => one.since - other.since)
      const [last, turn] = ofParty[mostTurns.party - 1] ?? []
      // A credential that has waited longer takes the turn of one that has waited less.
      if (turn !== undefined && turn.since <= call.since) return undefined
      if (last !== undefined) turns.delete(last)
      turns.set(key, { ...call, at })
      return at
    },
    end: (place: Place, exit: Exit.Exit<unknown, UpstreamFailure>, now: number): void => {
      const failure = failureOf(exit)
      place.freeAt = now + minute
      // A success of a call that began after a pause did ends the pause.
      if (Exit.isSuccess(exit) && place.startedAt > pause.beganAt) pause.until = 0
      if (failure?._tag !== "Refused" || failure.status !== 429) return
      // Of several pauses the longest holds.
      pause.until = Math.max(pause.until, now + (failure.retryAfterSeconds ?? 1) * 1_000)
      pause.beganAt = now
      pause.nextProbeAt = now + probeMillis
    }
  }
}
type Window = ReturnType<typeof makeWindow>

export const makeBudget = (
  { callsPerMinute, countAddresses }: { readonly callsPerMinute: number; readonly countAddresses: boolean },
  { ranked }: Pick<Credentials, "ranked">
) => {
  const windows = new Map<string, Window>()
  /** Until when the logins of a network are newcomers. */
  const newcomersUntil = new Map<string, number>()
  /** The places of completing introspections, by the key of their token. */
  const kept = new Map<string, Held>()
  /** Since when the credentials without a place wait, and when each may come back; apart, so that a flood evicts no vouched one. */
  const waits = { vouched: new Map<string, Wait>(), other: new Map<string, Wait>() }
  // Creates the series, so that the first refusal shows as an increase.
  for (const priority of Object.keys(ceilings)) recordNow(iamCallsRefused({ priority }), 0)

  const open = (name: string): Window => {
    const window = windows.get(name) ?? makeWindow(callsPerMinute)
    putBounded(windows, name, window, capacity)
    return window
  }

  const callOf = (request: Asked, address: string, now: number): Call => {
    const { credential, operation } = request
    if (credential === undefined)
      return { callClass: "known", operation, address, isVouched: false, since: now }
    const { actor, isVouched: isKnownToken, login } = ranked(credential)
    // A login counts by its network, also where its text is that of a token.
    const isVouched = isKnownToken && !isLogin(request)
    const isOfKeeping = isVouched && isKeeping(request)
    // A session that is refreshed while it waits keeps its turn.
    const key = isVouched && !isOfKeeping ? login : credential
    const isKnown = isVouched || (isLogin(request) && now >= (newcomersUntil.get(siteOf(address)) ?? now))
    const callClass = isOfKeeping ? "essential" : isKnown ? "known" : "newcomer"
    const wait = waits[isVouched ? "vouched" : "other"].get(key)
    const isWaiting =
      wait !== undefined && now <= wait.at + grace && (isVouched || now < wait.since + longestWait)
    // Who comes back late loses the time by which it is late.
    const since = isWaiting ? wait.since + Math.max(0, now - wait.at) : now
    return { callClass, key, login, actor, address, isVouched, operation, since }
  }

  /** When a call that lacks a place until `at` may come back. */
  const wait = (window: Window, call: Call, at: number, now: number): number => {
    const { isVouched, key, since } = call
    if (key === undefined) return Math.min(at, now + minute)
    const turnAt = isVouched || at < since + longestWait ? window.takeTurn(key, call, at, now) : undefined
    const next = turnAt ?? now + retryMillis
    putBounded(waits[isVouched ? "vouched" : "other"], key, { since, at: next }, capacity)
    return next
  }

  /** Takes a place for the call, and one for the introspection that completes it; or the one that is kept for an introspection. */
  const take = (plane: PlaneId, request: Asked, address: string, now: number) => {
    const { completedBy, credential = "", path } = request
    const own = path === introspectPath ? kept.get(credential) : undefined
    const begun = own?.window.beginKept(own.place, now)
    if (own !== undefined && begun !== undefined) {
      kept.delete(credential)
      return Effect.succeed([{ ...own, place: begun, keptFor: credential }])
    }
    const call = callOf(request, address, now)
    const paths = completedBy === undefined ? [path] : [path, introspectPath]
    const all = paths.map((each) => open(`${plane} ${each}`))
    for (const window of all) {
      const [at, lacksPlace] = window.delayOf(call, now) ?? []
      if (at === undefined) continue
      recordNow(iamCallsRefused({ priority: call.callClass }), 1)
      const millis = (lacksPlace ? wait(window, call, at, now) : at) - now
      const retryAfterSeconds = Math.max(1, Math.ceil(millis / 1_000))
      return new Refused({ dependency: "iam", status: 429, code: "over_budget", retryAfterSeconds })
    }
    return Effect.succeed(all.map((window): Held => ({ window, place: window.begin(call, now) })))
  }

  const end = (held: Held, exit: Exit.Exit<unknown, UpstreamFailure>, now: number): void => {
    const { keptFor, place, window } = held
    const failure = failureOf(exit)
    // The call did not reach IAM, so IAM did not count it. One that completes an exchange keeps its place for the next attempt.
    if (failure?._tag === "NotExecuted") {
      if (keptFor === undefined) return void window.places.delete(place)
      place.freeAt = now + minute
      return void putBounded(kept, keptFor, held, capacity)
    }
    window.end(place, exit, now)
    const { address, key = "" } = place.call
    for (const each of Object.values(waits)) each.delete(key)
    if (isLogin(place.call) && address !== "" && failure?._tag === "Refused" && refusesToken(failure))
      putBounded(newcomersUntil, siteOf(address), now + refusedLoginMillis, capacity)
  }

  return {
    /**
     * Runs the call, or fails with 429 and the seconds after which it finds a place. The place of the introspection that completes an
     * exchange is taken with its own, kept for 60 s after a success, and given back after a failure. `plane` is empty for the secrets of
     * all testing planes, which IAM has to resolve.
     */
    within:
      <A>(plane: PlaneId, request: IamRequest<A>) =>
      (call: Effect.Effect<A, UpstreamFailure>): Effect.Effect<A, UpstreamFailure> =>
        Effect.clockWith((clock) =>
          Effect.acquireUseRelease(
            Effect.flatMap(RequestContext, ({ clientNetwork }) => {
              const address = countAddresses ? clientNetwork : ""
              return take(plane, request, address, unsafeMonotonicMillis(clock))
            }),
            () => call,
            ([held, next], exit) =>
              Effect.sync(() => {
                const now = unsafeMonotonicMillis(clock)
                if (held !== undefined) end(held, exit, now)
                if (next === undefined) return
                if (Exit.isFailure(exit) || request.completedBy === undefined)
                  return void next.window.places.delete(next.place)
                next.place.freeAt = now + minute
                putBounded(kept, request.completedBy(exit.value), next, capacity)
              })
          )
        ),
    taken: (now: number, wall: number): ReadonlyArray<LeftPlace> =>
      [...windows].flatMap(([window, { places }]) =>
        endsOf([...places], now).map((at) => ({ window, freeAt: wall + Math.ceil(at - now) }))
      ),
    /**
     * Takes the places of calls that other processes made, none for more than 60 s, whatever the wall clocks say. Returns those beyond
     * the budget, which another process has to count.
     */
    occupy: (left: ReadonlyArray<LeftPlace>, now: number, wall: number): ReadonlyArray<LeftPlace> => {
      const call: Call = { callClass: "known", operation: "", address: "", isVouched: false, since: now }
      return left.filter(({ freeAt, window }) => {
        const millis = Math.min(freeAt - wall, minute)
        const { places } = open(window)
        const isFull = places.size >= callsPerMinute
        if (millis > 0 && !isFull) places.add({ call, startedAt: 0, freeAt: now + millis })
        return millis > 0 && isFull
      })
    }
  }
}
export type Budget = ReturnType<typeof makeBudget>
