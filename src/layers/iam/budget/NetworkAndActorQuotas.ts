/** Quotas over many credentials: the logins of one network, and the refreshes of one actor over all logins. */
import { makeQuota, type Quota, type QuotaPolicy } from "../../../services/Quota.ts"
import { scaled } from "./CredentialBounds.ts"
import { type Counted, introspectPath, type Purpose } from "./Purpose.ts"

/** A burst as large as an office, then a part of the budget: 40 a minute. */
const loginsOfNetwork = { name: "logins", quota: 60, windowSeconds: 90 }
/** The same, then 30 a minute. For tokens whose actor is unknown. */
const refreshesOfNetwork = { name: "refreshes of a network", quota: 60, windowSeconds: 120 }
/** A burst as large as a fleet of programs of one actor, then 10 a minute: 290 logins, each refreshed in 29 minutes. */
const refreshesOfActor = { name: "refreshes of an actor", quota: 30, windowSeconds: 180 }

export interface QuotaUse {
  /** Seconds until a use is free; 0 when this one is admitted, or when no quota counts the call. */
  readonly retryAfterSeconds: number
  /** Undoes a use that was admitted. */
  readonly giveBack: () => void
}

const uncounted: QuotaUse = { retryAfterSeconds: 0, giveBack: () => undefined }

export interface NetworkAndActorQuotas {
  /** `now` is monotonic milliseconds. */
  readonly take: (counted: Counted, purpose: Purpose, network: string, now: number) => QuotaUse
}

/**
 * `ownerOf` is the actor of a credential. A refresh whose actor is unknown counts for its network. `countAddresses` is off
 * where a gateway limits: then many clients may share its address, and networks are not counted.
 */
export const makeNetworkAndActorQuotas = (
  options: { readonly callsPerMinute: number; readonly countAddresses: boolean },
  ownerOf: (credential: string) => string | undefined
): NetworkAndActorQuotas => {
  const quotaOf = (policy: QuotaPolicy): Quota =>
    makeQuota({ ...policy, quota: scaled(policy.quota, options.callsPerMinute) })
  const logins = quotaOf(loginsOfNetwork)
  const ofNetwork = quotaOf(refreshesOfNetwork)
  const ofActor = quotaOf(refreshesOfActor)

  const countedBy = ({ credential, use }: Purpose, network: string) => {
    if (use === "login") return options.countAddresses ? { quota: logins, key: network } : undefined
    if (use !== "refresh" || credential === undefined) return undefined
    const owner = ownerOf(credential)
    if (owner !== undefined) return { quota: ofActor, key: owner }
    return options.countAddresses ? { quota: ofNetwork, key: network } : undefined
  }

  return {
    take: ({ path, plane }, purpose, network, now) => {
      // The introspection that a login or refresh reserves is no second login or refresh.
      const counted = path === introspectPath ? undefined : countedBy(purpose, network)
      if (counted === undefined) return uncounted
      const key = `${plane} ${counted.key}`
      const { retryAfterSeconds } = counted.quota.take(key, now)
      return {
        retryAfterSeconds,
        giveBack: () => {
          if (retryAfterSeconds === 0) counted.quota.giveBack(key)
        }
      }
    }
  }
}
