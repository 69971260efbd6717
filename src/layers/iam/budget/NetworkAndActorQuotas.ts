/** Quotas over many credentials: the logins of one network, and the refreshes of one actor over all logins. */
import { makeQuota, type Quota, type QuotaPolicy } from "../../../services/Quota.ts"
import { scaled } from "./CredentialBounds.ts"
import type { KnownCredentials } from "./KnownCredentials.ts"
import { type Counted, introspectPath, type Purpose } from "./Purpose.ts"

/** A burst as large as an office, then a part of the budget: 40 a minute. */
const loginsOfNetwork = { name: "logins", quota: 60, windowSeconds: 90 }
/** The same, then 30 a minute. For tokens whose actor is unknown. */
const refreshesOfNetwork = { name: "refreshes of a network", quota: 60, windowSeconds: 120 }
/** A burst as large as a fleet of programs of one actor, then 10 a minute: 290 logins, each refreshed in 29 minutes. */
const refreshesOfActor = { name: "refreshes of an actor", quota: 30, windowSeconds: 180 }
/**
 * The last refreshes of one login; one is forgotten every 5 minutes. For each of them the login leaves a sixth of the actor's
 * quota to logins with fewer, so that logins which refresh in a loop shut no other out.
 */
const refreshesOfLogin = { name: "refreshes of a login", quota: 4, windowSeconds: 1_200 }
const partsOfActor = 6

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
 * A refresh whose actor is unknown counts for its network. `countAddresses` is off where a gateway limits: then many clients
 * may share its address, and networks are not counted.
 */
export const makeNetworkAndActorQuotas = (
  options: { readonly callsPerMinute: number; readonly countAddresses: boolean },
  known: Pick<KnownCredentials, "budgetKey" | "ownerOf">
): NetworkAndActorQuotas => {
  const quotaOf = (policy: QuotaPolicy): Quota =>
    makeQuota({ ...policy, quota: scaled(policy.quota, options.callsPerMinute) })
  const logins = quotaOf(loginsOfNetwork)
  const ofNetwork = quotaOf(refreshesOfNetwork)
  const ofActor = quotaOf(refreshesOfActor)
  const actorQuota = scaled(refreshesOfActor.quota, options.callsPerMinute)
  const ofLogin = makeQuota(refreshesOfLogin)

  const useOf = (quota: Quota, key: string, now: number, leave = 0): QuotaUse => {
    const { retryAfterSeconds } = quota.take(key, now, leave)
    return {
      retryAfterSeconds,
      giveBack: () => {
        if (retryAfterSeconds === 0) quota.giveBack(key)
      }
    }
  }

  const refreshOf = (actor: string, login: string, now: number): QuotaUse => {
    const leave = Math.floor((actorQuota * ofLogin.used(login, now)) / partsOfActor)
    const use = useOf(ofActor, actor, now, leave)
    if (use.retryAfterSeconds > 0) return use
    const counted = useOf(ofLogin, login, now)
    return {
      retryAfterSeconds: 0,
      giveBack: () => {
        use.giveBack()
        counted.giveBack()
      }
    }
  }

  return {
    take: ({ path, plane }, { credential, use }, network, now) => {
      // The introspection that a login or refresh reserves is no second login or refresh.
      if (path === introspectPath || (use !== "login" && use !== "refresh")) return uncounted
      const actor = use === "login" || credential === undefined ? undefined : known.ownerOf(credential)
      if (credential !== undefined && actor !== undefined)
        return refreshOf(`${plane} ${actor}`, known.budgetKey(credential), now)
      if (!options.countAddresses) return uncounted
      return useOf(use === "login" ? logins : ofNetwork, `${plane} ${network}`, now)
    }
  }
}
