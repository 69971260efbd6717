/**
 * A client as another language would write it, from docs/client.md alone: derived keys, saved before used, the old pair kept until then, only
 * the service's own 401 to a refresh ends a session, and 10 minutes for an answer that was lost.
 */
import { createHash } from "node:crypto"
import type { SessionStore, StoredSession } from "../../../client/stores/SessionStore.ts"
import type { Me } from "../../../client/Types.ts"
import type { SimulatedTime } from "../../support/SimulatedTime.ts"
import {
  bearer,
  bodyOf,
  codeOf,
  isSuccess,
  json,
  keyed,
  retryAfterOf,
  type Answer,
  type Sent,
  selecting
} from "../../world/Driver.ts"
import { type Caller, type Outcome, tingType } from "./Programs.ts"

/** The key of an operation on a credential ("Keys, for clients in other languages"). */
export const derivedKey = (operation: "login" | "refresh" | "logout", credential: string): string =>
  createHash("sha256").update(`music-client/v1\n${operation}\n${credential}`).digest("hex")

/** Milliseconds of one call in all. */
const deadline = 30_000
/** Milliseconds before the end of an access token at which it is refreshed. */
const margin = 60_000

const retryable = [
  "transport_failed",
  "internal",
  "dependency_unavailable",
  "overloaded",
  "rate_limited",
  "shutting_down",
  "idempotency_in_progress",
  "temporarily_rate_limited"
]

const failed = (code: string, reason?: string): Outcome<never> => ({ ok: false, code, reason })

const outcomeOf = (answer: Answer): Outcome<unknown> =>
  isSuccess(answer)
    ? { ok: true, value: bodyOf(answer) }
    : {
        ok: false,
        code: codeOf(answer) ?? `status_${answer.status}`,
        retryAfterSeconds: retryAfterOf(answer)
      }

export const makeOtherLanguage = ({
  exchange,
  store,
  testingKey,
  time
}: {
  readonly store: SessionStore
  readonly time: SimulatedTime
  readonly testingKey: string | null
  readonly exchange: (request: Sent) => Promise<Answer>
}): Caller => {
  const slot = testingKey === null ? "production-other" : "testing-other"

  /** Repeats the same request under the same key until the deadline. */
  const send = async (path: string, headers: Sent["headers"], body?: unknown): Promise<Outcome<unknown>> => {
    const end = time.now() + deadline
    for (let wait = 250; ; wait = Math.min(wait * 2, 5_000)) {
      const outcome = await exchange({
        path: `/api/v1${path}`,
        headers: { ...(body === undefined ? {} : json), ...selecting(testingKey ?? undefined), ...headers },
        ...(body === undefined ? {} : { body: JSON.stringify(body) })
      }).then(outcomeOf, () => failed("transport_failed"))
      if (outcome.ok || !retryable.includes(outcome.code)) return outcome
      const next = Math.max(wait, (outcome.retryAfterSeconds ?? 0) * 1_000)
      if (time.now() + next >= end) return outcome
      await time.sleep(next)
    }
  }

  // The stored form is that of the real client, so that one check of the store fits both.
  const load = async () => (await store.load(slot)) as StoredSession | undefined

  /** What a login or refresh gave, saved before it is used. */
  const save = async (
    session: unknown,
    login_key: string,
    obtained_at: number,
    replaced: string | null
  ): Promise<Outcome<StoredSession>> => {
    const stored = { ...Object(session), version: 1, slot, obtained_at, login_key } as StoredSession
    return store.save(slot, stored, replaced).then(
      () => ({ ok: true, value: stored }),
      () => failed("store_failed")
    )
  }

  const locked = async <A>(use: () => Promise<A>): Promise<A> => {
    const release = await store.lock?.acquire(slot, new AbortController().signal)
    try {
      return await use()
    } finally {
      await release?.()
    }
  }

  const expiryOf = ({ expires_in, obtained_at }: StoredSession) => obtained_at + expires_in * 1_000

  /** Under the lock. */
  const refresh = async (refused: string | undefined): Promise<Outcome<StoredSession>> => {
    const stored = await load()
    if (stored === undefined) return failed("logged_out", "replaced")
    const { access_token, login_key, refresh_token } = stored
    const sentAt = time.now()
    if (sentAt < expiryOf(stored) - margin && access_token !== refused) return { ok: true, value: stored }
    const answer = await send("/auth/refresh", keyed(derivedKey("refresh", refresh_token)), { refresh_token })
    if (answer.ok) return save(answer.value, login_key, sentAt, refresh_token)
    if (answer.code !== "unauthenticated" && answer.code !== "idempotency_response_expired") return answer
    await store.clear(slot)
    return failed("logged_out", answer.code === "unauthenticated" ? "revoked" : "lost")
  }

  const signed = async (path: string, body?: unknown): Promise<Outcome<unknown>> => {
    const stored = await load()
    if (stored === undefined) return failed("not_logged_in")
    const left = expiryOf(stored) - time.now()
    const usable: Outcome<StoredSession> =
      left > margin ? { ok: true, value: stored } : await locked(() => refresh(undefined))
    // A failed early refresh is no failure of the call while the token is valid.
    if (!usable.ok && (left <= 0 || usable.code === "logged_out")) return usable
    const first = usable.ok ? usable.value : stored
    const sendWith = ({ access_token, org_id }: StoredSession) =>
      send(path, bearer(access_token, org_id), body)
    const answer = await sendWith(first)
    if (answer.ok || answer.code !== "unauthenticated") return answer
    const renewed = await locked(() => refresh(first.access_token))
    if (!renewed.ok) return renewed
    const again = await sendWith(renewed.value)
    return !again.ok && again.code === "unauthenticated" ? failed("logged_out", "refused") : again
  }

  return {
    login: (slt, given) =>
      locked(async () => {
        const key = given ?? derivedKey("login", slt)
        const stored = await load()
        if (stored?.login_key === key) return { ok: true, value: stored }
        const sentAt = time.now()
        const answer = await send("/auth/login", keyed(key), { slt })
        return answer.ok ? save(answer.value, key, sentAt, stored?.refresh_token ?? null) : answer
      }),
    logout: (forget) =>
      locked(async () => {
        const stored = await load()
        if (forget) await store.clear(slot)
        if (stored === undefined) return { ok: true, value: undefined }
        const token = stored.refresh_token
        const answer = await send("/auth/logout", keyed(derivedKey("logout", token)), { token })
        if (answer.ok) await store.clear(slot)
        return answer
      }),
    session: async () => ({ ok: true, value: await load() }),
    me: async () => (await signed("/auth/me")) as Outcome<Me>,
    subscribe: () => signed("/ting/subscription", {}),
    ting: async (key) => {
      const actor = (await load())?.actor.public_id ?? ""
      return signed("/tings", { type: tingType, key: `${actor}/${key}`, data: { n: 1 } })
    }
  }
}
