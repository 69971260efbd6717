/**
 * A client as another language would write it, from docs/client.md alone: derived keys, saved before used, the old pair kept until then, only
 * the service's own 401 to a refresh ends a session, and 10 minutes for an answer that was lost.
 */
import { createHash } from "node:crypto"
import type { SessionStore, StoredSession } from "../../../client/stores/SessionStore.ts"
import type { Me, Ting } from "../../../client/Types.ts"
import type { InMemoryRequest, InMemoryResponse } from "../../support/InMemoryServer.ts"
import type { SimulatedTime } from "../../support/SimulatedTime.ts"
import type { Caller, Outcome } from "./Programs.ts"

export const slotOf = (testingKey: string | null): string =>
  testingKey === null ? "production-other" : "testing-other"

/** The key of an operation on a credential ("Keys, for clients in other languages"). */
export const derivedKey = (operation: "login" | "refresh" | "logout", credential: string): string =>
  createHash("sha256").update(`music-client/v1\n${operation}\n${credential}`).digest("hex")

/** Milliseconds of one call in all. */
const deadline = 30_000
/** Milliseconds before the end of an access token at which it is refreshed. */
const margin = 60_000

type Answer = Outcome<unknown>

const readJson = (text: string): Record<string, unknown> => {
  try {
    return Object(JSON.parse(text))
  } catch {
    return {}
  }
}

const outcomeOf = ({ headers, status, text }: InMemoryResponse): Answer => {
  if (status >= 200 && status < 300) return { ok: true, value: text === "" ? undefined : readJson(text) }
  const error: Record<string, unknown> = Object(readJson(text).error)
  const after = Number(headers["retry-after"])
  return {
    ok: false,
    code: typeof error.code === "string" ? error.code : `status_${status}`,
    reason: undefined,
    retryAfterSeconds: Number.isFinite(after) ? after : undefined
  }
}

const isRetryable = (answer: Answer): boolean =>
  !answer.ok &&
  ["transport_failed", "internal", "dependency_unavailable", "overloaded", "rate_limited", "shutting_down"]
    .concat(["idempotency_in_progress", "temporarily_rate_limited"])
    .includes(answer.code)

const failed = (code: string, reason?: string): Outcome<never> => ({
  ok: false,
  code,
  reason,
  retryAfterSeconds: undefined
})

export const makeOtherLanguage = (options: {
  readonly store: SessionStore
  readonly time: SimulatedTime
  readonly testingKey: string | null
  readonly exchange: (request: InMemoryRequest) => Promise<InMemoryResponse>
}): Caller => {
  const { exchange, store, testingKey, time } = options
  const slot = slotOf(testingKey)

  /** Repeats the same request under the same key until the deadline. */
  const send = async (request: {
    readonly path: string
    readonly body?: unknown
    readonly key?: string
    readonly bearer?: StoredSession
  }): Promise<Answer> => {
    const { bearer, body, key, path } = request
    const end = time.now() + deadline
    for (let wait = 250; ; wait = Math.min(wait * 2, 5_000)) {
      const answer: Answer = await exchange({
        path: `/api/v1${path}`,
        method: body === undefined ? "GET" : "POST",
        headers: {
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...(key === undefined ? {} : { "idempotency-key": key }),
          ...(testingKey === null ? {} : { "x-testing-environment-key": testingKey }),
          ...(bearer === undefined
            ? {}
            : { authorization: `Bearer ${bearer.access_token}`, "x-org-id": bearer.org_id })
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) })
      }).then(outcomeOf, () => failed("transport_failed"))
      if (!isRetryable(answer)) return answer
      const next = Math.max(wait, (answer.ok ? 0 : (answer.retryAfterSeconds ?? 0)) * 1_000)
      if (time.now() + next >= end) return answer
      await time.sleep(next)
    }
  }

  // The stored form is that of the real client, so that one check of the store fits both.
  const load = async () => (await store.load(slot)) as StoredSession | undefined

  const save = async (session: unknown, loginKey: string, sentAt: number, replaced: string | null) => {
    const stored = {
      ...Object(session),
      version: 1,
      slot,
      obtained_at: sentAt,
      login_key: loginKey
    } as StoredSession
    await store.save(slot, stored, replaced)
    return stored
  }

  const locked = async <A>(use: () => Promise<A>): Promise<A> => {
    const release = await store.lock?.acquire(slot, new AbortController().signal)
    try {
      return await use()
    } finally {
      await release?.()
    }
  }

  /** Under the lock. */
  const refresh = async (refused: string | undefined): Promise<Outcome<StoredSession>> => {
    const stored = await load()
    if (stored === undefined) return failed("logged_out", "replaced")
    const isDue = time.now() >= stored.obtained_at + stored.expires_in * 1_000 - margin
    if (!isDue && stored.access_token !== refused) return { ok: true, value: stored }
    const sentAt = time.now()
    const answer = await send({
      path: "/auth/refresh",
      key: derivedKey("refresh", stored.refresh_token),
      body: { refresh_token: stored.refresh_token }
    })
    if (answer.ok) {
      try {
        return { ok: true, value: await save(answer.value, stored.login_key, sentAt, stored.refresh_token) }
      } catch {
        return failed("store_failed")
      }
    }
    if (answer.code !== "unauthenticated" && answer.code !== "idempotency_response_expired") return answer
    await store.clear(slot)
    return failed("logged_out", answer.code === "unauthenticated" ? "revoked" : "lost")
  }

  const signed = async (path: string, body?: unknown): Promise<Answer> => {
    const stored = await load()
    if (stored === undefined) return failed("not_logged_in")
    const left = stored.obtained_at + stored.expires_in * 1_000 - time.now()
    const usable: Outcome<StoredSession> =
      left > margin ? { ok: true, value: stored } : await locked(() => refresh(undefined))
    // A failed early refresh is no failure of the call while the token is valid.
    const isOver = !usable.ok && usable.code === "logged_out"
    if (!usable.ok && (left <= 0 || isOver)) return usable
    const first = usable.ok ? usable.value : stored
    const facts = { path, ...(body === undefined ? {} : { body }) }
    const answer = await send({ ...facts, bearer: first })
    if (answer.ok || answer.code !== "unauthenticated") return answer
    const renewed = await locked(() => refresh(first.access_token))
    if (!renewed.ok) return renewed
    const again = await send({ ...facts, bearer: renewed.value })
    return !again.ok && again.code === "unauthenticated" ? failed("logged_out", "refused") : again
  }

  return {
    login: (slt, given) =>
      locked(async () => {
        const key = given ?? derivedKey("login", slt)
        const stored = await load()
        if (stored?.login_key === key) return { ok: true, value: stored }
        const sentAt = time.now()
        const answer = await send({ path: "/auth/login", key, body: { slt } })
        if (!answer.ok) return answer
        try {
          return { ok: true, value: await save(answer.value, key, sentAt, stored?.refresh_token ?? null) }
        } catch {
          return failed("store_failed")
        }
      }),
    logout: (forget) =>
      locked(async () => {
        const stored = await load()
        if (forget) await store.clear(slot)
        if (stored === undefined) return { ok: true, value: undefined }
        const token = stored.refresh_token
        const answer = await send({ path: "/auth/logout", key: derivedKey("logout", token), body: { token } })
        if (answer.ok) await store.clear(slot)
        return answer
      }),
    session: async () => ({ ok: true, value: await load() }),
    me: async () => (await signed("/auth/me")) as Outcome<Me>,
    subscribe: () => signed("/ting/subscription", {}),
    ting: async (type, key) => {
      const actor = (await load())?.actor.public_id ?? ""
      return (await signed("/tings", { type, key: `${actor}/${key}`, data: { n: 1 } })) as Outcome<Ting>
    }
  }
}
