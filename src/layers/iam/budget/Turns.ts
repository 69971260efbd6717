/**
 * The order of credentials that were refused for lack of a place: one that comes back at the time of its `Retry-After` goes before
 * new calls. Where it has a turn, a place is kept for it from that time on, for 10 s, from calls of its share that have come back
 * less often. Plain bookkeeping without effects, in bounded memory; times are monotonic milliseconds.
 */
import { makeQuota } from "../../../services/Quota.ts"
import { putBounded } from "../BoundedMap.ts"
import type { Share } from "./Shares.ts"

/** Milliseconds after its retry time in which a credential is in time. */
export const turnGrace = 10_000
const turnsOfNetwork = 2
const maxTurns = 1_000
/** Credentials whose retry times are kept. Beyond it the one with the oldest write is removed. */
const maxRetryTimes = 20_000
/** Milliseconds from its first refusal on in which a credential counts as waiting: then a short-lived token has ended. */
const waitMillis = 120_000
/** Seconds after which a credential without a turn may come back, in case a place or a turn is free then. */
const retrySeconds = 5
/** More of them from one network come later: 15 a second, fewer than the requests that an address may make. */
const retriesOfNetwork = { name: "retries", quota: 900, windowSeconds: 60 }

/** A call of a credential. */
export interface Caller {
  /** Plane and path. */
  readonly window: string
  readonly share: Share
  readonly key: string
  /** How often in a row the credential came back in time; 0 for a new call. */
  readonly patience: number
}

interface Waiting extends Caller {
  /** Empty where networks are not counted. */
  readonly network: string
}

interface Turn extends Waiting {
  readonly at: number
}

/** When a refused credential may come back. */
interface RetryTime {
  readonly at: number
  /** The first refusal of the row. */
  readonly since: number
  readonly patience: number
}

export interface Turns {
  readonly patienceOf: (key: string, now: number) => number
  /** Places that are kept from the call: the due turns of its share whose credentials are as patient. */
  readonly keptFrom: (caller: Caller, now: number) => number
  /**
   * The retry time of a refused credential. It has a turn then if one is left in its window and network, or if it takes that
   * of a less patient credential. `ends`: when places become free. `most`: turns of its share in its window.
   */
  readonly refuse: (
    waiting: Omit<Waiting, "patience">,
    places: { readonly ends: ReadonlyArray<number>; readonly most: number },
    now: number
  ) => number
  /** The call has its place. */
  readonly use: (window: string, key: string) => void
  /** The call was sent. Until then it may find no place in another window, and has waited all the same. */
  readonly forget: (key: string) => void
}

export const makeTurns = (): Turns => {
  const turns = new Map<string, Turn>()
  const retryTimes = new Map<string, RetryTime>()
  const retries = makeQuota(retriesOfNetwork)

  const turnsAt = (now: number): ReadonlyArray<Turn> => {
    for (const [name, { at }] of turns) if (at + turnGrace < now) turns.delete(name)
    return [...turns.values()]
  }
  const nameOf = ({ key, window }: { readonly window: string; readonly key: string }) => `${window} ${key}`

  /** The retry time of the credential, if it comes back in time. */
  const metBy = (key: string, now: number): RetryTime | undefined => {
    const found = retryTimes.get(key)
    return found !== undefined &&
      found.at <= now &&
      now <= found.at + turnGrace &&
      now < found.since + waitMillis
      ? found
      : undefined
  }
  const patienceAfter = (met: RetryTime | undefined): number => (met === undefined ? 0 : met.patience + 1)

  /** The time of a turn of the credential, where it gets one. */
  const turnFor = (
    { network, patience, share, window }: Waiting,
    { ends, most }: Parameters<Turns["refuse"]>[1],
    now: number
  ): { readonly at: number; readonly instead?: Turn } | undefined => {
    const all = turnsAt(now)
    const ofShare = all.filter((turn) => turn.window === window && turn.share === share)
    const ofNetwork = network === "" ? [] : all.filter((turn) => turn.network === network)
    const rivals =
      ofNetwork.length >= turnsOfNetwork ? ofNetwork : ofShare.length >= most ? ofShare : undefined
    const next = ends[ofShare.length]
    if (rivals === undefined) return next === undefined || all.length >= maxTurns ? undefined : { at: next }
    const [instead] = rivals
      .filter((turn) => turn.at > now && turn.patience < patience)
      .sort((one, other) => one.patience - other.patience || one.at - other.at)
    if (instead === undefined) return undefined
    const at = ofShare.includes(instead) ? instead.at : next
    return at === undefined ? undefined : { at, instead }
  }

  const refuse: Turns["refuse"] = (caller, places, now) => {
    const { key, network } = caller
    const own = turns.get(nameOf(caller))
    if (own !== undefined && own.at > now) return own.at
    turns.delete(nameOf(caller))
    const met = metBy(key, now)
    const patience = patienceAfter(met)
    const since = met?.since ?? now
    const keep = (at: number): number => {
      putBounded(retryTimes, key, { at, since, patience }, maxRetryTimes)
      return at
    }
    const waiting = { ...caller, patience }
    const turn = turnFor(waiting, places, now)
    if (turn !== undefined && turn.at < since + waitMillis) {
      if (turn.instead !== undefined) turns.delete(nameOf(turn.instead))
      turns.set(nameOf(caller), { ...waiting, at: turn.at })
      return keep(turn.at)
    }
    const { policy, remaining } = retries.take(network, now)
    const seconds = Math.ceil(((policy.quota - remaining) * policy.windowSeconds) / policy.quota)
    return keep(now + 1_000 * Math.max(retrySeconds, seconds))
  }

  return {
    patienceOf: (key, now) => patienceAfter(metBy(key, now)),
    keptFrom: ({ key, patience, share, window }, now) =>
      turnsAt(now).filter(
        (turn) =>
          turn.window === window &&
          turn.share === share &&
          turn.key !== key &&
          turn.at <= now &&
          turn.patience >= patience
      ).length,
    refuse,
    use: (window, key) => void turns.delete(nameOf({ window, key })),
    forget: (key) => void retryTimes.delete(key)
  }
}
