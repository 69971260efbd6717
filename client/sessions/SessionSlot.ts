/** The stored session of one server and plane: loaded, checked and saved, by one program at a time. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import {
  isNumber,
  isRecord,
  isText,
  isTingOutcome,
  objectOf,
  sessionMembers,
  type WireSession
} from "../calls/Answers.ts"
import { type Deadline, monotonicMillis, within } from "../calls/Deadline.ts"
import type { ClientEvent } from "../Events.ts"
import { clientFailure, type MusicFailure, type OptionsProblem } from "../failures/Failures.ts"
import { sha256 } from "../calls/IdempotencyKeys.ts"
import { deadlineMillisecondsOf, type MusicClientOptions } from "../Options.ts"
import { findOptionsProblem } from "../OptionsCheck.ts"
import { addressOf } from "../calls/Requests.ts"
import type { LoggedOutReason, SessionInfo, TingOutcome } from "../Types.ts"
import { memorySessionStore, processLock, type StoredSession } from "../stores/SessionStore.ts"
import { describeStoreFailure, SessionStoreError } from "../failures/StoreFailures.ts"

/** Milliseconds: an access token is refreshed this long before its end; a short-lived one in the last tenth of its life. */
const longestMargin = 60_000

const isStored = objectOf<StoredSession>({
  ...sessionMembers,
  version: (value): value is 1 => value === 1,
  slot: isText,
  obtained_at: isNumber,
  login_key: isText,
  ting: isTingOutcome
})

const isTesting = (options: MusicClientOptions): boolean => typeof options.testingKey === "string"

/**
 * The name of the slot: file-name-safe, with a digest of the testing secret. Options with a problem have no slot, so a
 * wrong testing key can neither read nor clear the session of production.
 */
const nameOf = (
  options: MusicClientOptions
): Effect.Effect<string, OptionsProblem | MusicFailure<"unsupported">> => {
  const problem = findOptionsProblem(options)
  if (problem !== undefined) return Effect.fail(problem)
  const text = `music-client/v1\nslot\n${addressOf(options.baseUrl)}\n${options.testingKey ?? ""}`
  return Effect.map(
    sha256(text),
    (digest) => `${isTesting(options) ? "testing" : "production"}-${digest.slice(0, 32)}`
  )
}

export type StoreFailed = MusicFailure<"store_failed">

/** The failure of a store. The cause of a spoiled session may quote a credential, so it is not kept. */
const storeFailed = (cause: unknown): StoreFailed => {
  const { code, hint, message, path, reason, retryable } = describeStoreFailure(cause)
  return clientFailure("store_failed", {
    message,
    hint,
    retryable,
    ...(reason === "corrupt" ? {} : { cause }),
    details: {
      reason,
      ...(path === undefined ? {} : { path }),
      ...(code === undefined ? {} : { code })
    }
  })
}

export const healedEvent = ({ details }: StoreFailed): ClientEvent => ({
  type: "session_healed",
  ...(details.path === undefined ? {} : { path: details.path })
})

/** The store has something that is no session: a login replaces it, a logout removes it. */
export const isCorrupt = (failure: MusicFailure): failure is StoreFailed =>
  failure.code === "store_failed" && failure.details.reason === "corrupt"

/** Failures of loading and saving. */
export type SlotFailure = StoreFailed | OptionsProblem | MusicFailure<"unsupported">

export interface SessionSlot {
  /** The stored session; another program may have stored it. */
  readonly load: Effect.Effect<StoredSession, MusicFailure<"not_logged_in"> | SlotFailure>
  /** Saves a session; `sentAt` is the monotonic time of its request, milliseconds. */
  readonly save: (
    session: WireSession,
    kept: Pick<StoredSession, "login_key" | "ting">,
    sentAt: number
  ) => Effect.Effect<StoredSession, SlotFailure>
  /** Fails when the stored session could not be replaced now; changes nothing. */
  readonly probe: (stored: StoredSession) => Effect.Effect<void, SlotFailure>
  readonly clear: Effect.Effect<void, SlotFailure>
  /** How often this client has cleared the slot, also without the lock. */
  readonly clears: () => number
  /** Milliseconds until the access token expires. */
  readonly millisLeft: (session: StoredSession) => Effect.Effect<number>
  readonly isDue: (session: StoredSession) => Effect.Effect<boolean>
  /** Runs under the lock of the store. The wait for the lock ends with the deadline, or when it is interrupted. */
  readonly withLock: (
    deadline: Deadline
  ) => <A, E>(use: Effect.Effect<A, E>) => Effect.Effect<A, E | SlotFailure | MusicFailure<"timed_out">>
  /** Remembers why the session ended, until another one is stored. */
  readonly noteEnd: (reason: LoggedOutReason | undefined) => void
  readonly ended: () => LoggedOutReason | undefined
  /** Whether a session belongs to the plane of this client. */
  readonly isOwn: (session: WireSession) => boolean
}

/** A later version of the client keeps its sessions in another form; a login of this one must not replace them. */
const isOfLaterVersion = (found: unknown): boolean =>
  isRecord(found) && typeof found.version === "number" && found.version > 1

const laterSession = clientFailure("store_failed", {
  message: "The stored session is of a newer version of the client.",
  hint: "Update this program, or give it a session store of its own.",
  retryable: false,
  details: { reason: "misconfigured" }
})

/** A session without its tokens: a copy, because a caller that changes it must not change the stored one. */
export const infoOf = (stored: StoredSession): SessionInfo => ({
  actor: { ...stored.actor },
  org_id: stored.org_id,
  org_ids: [...stored.org_ids],
  scope: stored.scope,
  testing_environment_id: stored.testing_environment_id,
  expires_at: endOf(stored)
})

/** The longest time that a `Date` can hold, milliseconds. */
const latest = 8.64e15

// A store may return any numbers.
const endOf = ({ expires_in, obtained_at }: StoredSession): string =>
  new Date(Math.max(-latest, Math.min(latest, obtained_at + expires_in * 1_000))).toISOString()

/** The known members: what a later service adds is not stored. */
const copyOutcome = ({ error, subscribed, subscription_id }: TingOutcome): TingOutcome => ({
  subscribed,
  ...(subscription_id === undefined ? {} : { subscription_id }),
  ...(error === undefined ? {} : { error })
})

const foreignSession = clientFailure("store_failed", {
  message: "The store returned the session of another server or plane.",
  hint: "Use a store that keeps one session for each slot, or clear the store.",
  retryable: false,
  details: { reason: "misconfigured" }
})

/** A store that never answers must not keep a call for ever. */
const silentStore = clientFailure("store_failed", {
  message: "The session store did not answer.",
  details: { reason: "unavailable" }
})

export const makeSessionSlot = (options: MusicClientOptions): Effect.Effect<SessionSlot> =>
  Effect.gen(function* () {
    const store = options.sessionStore ?? memorySessionStore()
    const storeMilliseconds = deadlineMillisecondsOf(options)
    const lock = options.lock ?? store.lock ?? processLock()
    const name = yield* Effect.cached(nameOf(options))
    // Monotonic time of the request for the current token: independent of the wall clock, while this program runs.
    let end: LoggedOutReason | undefined
    let clears = 0
    let receipt: { readonly token: string; readonly at: number } | undefined

    const isOwn = (session: { readonly testing_environment_id: string | null }) =>
      (session.testing_environment_id !== null) === isTesting(options)

    const asked = <A>(run: (slot: string) => Promise<A>, milliseconds?: number) =>
      Effect.flatMap(name, (slot) => {
        const answer = Effect.tryPromise({
          // A store may answer without a promise.
          try: async () => run(slot),
          catch: storeFailed
        })
        return milliseconds === undefined
          ? answer
          : Effect.timeoutFail(answer, { duration: milliseconds, onTimeout: () => silentStore })
      })

    const load: SessionSlot["load"] = Effect.gen(function* () {
      const before = end
      const found = yield* asked((slot) => store.load(slot), storeMilliseconds)
      if (found === undefined || found === null) return yield* clientFailure("not_logged_in")
      if (isOfLaterVersion(found)) return yield* laterSession
      if (!isStored(found)) return yield* storeFailed(new SessionStoreError({ reason: "corrupt" }))
      if (found.slot !== (yield* name) || !isOwn(found)) return yield* foreignSession
      // Another program has logged in since. An end during the load is newer than its session.
      if (end === before) end = undefined
      return found
    })

    const save: SessionSlot["save"] = (session, kept, sentAt) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const stored: StoredSession = {
          version: 1,
          slot: yield* name,
          access_token: session.access_token,
          refresh_token: session.refresh_token,
          expires_in: session.expires_in,
          obtained_at: Math.round(now - ((yield* monotonicMillis) - sentAt)),
          scope: session.scope,
          actor: { type: session.actor.type, public_id: session.actor.public_id },
          org_id: session.org_id,
          org_ids: session.org_ids,
          testing_environment_id: session.testing_environment_id,
          login_key: kept.login_key,
          ting: copyOutcome(kept.ting)
        }
        yield* asked((slot) => store.save(slot, stored))
        receipt = { token: stored.access_token, at: sentAt }
        return stored
      })

    const millisLeft: SessionSlot["millisLeft"] = (session) =>
      Effect.gen(function* () {
        const byWall = (yield* Clock.currentTimeMillis) - session.obtained_at
        const known =
          receipt?.token === session.access_token ? (yield* monotonicMillis) - receipt.at : Number.NaN
        // A wall clock before `obtained_at` is wrong: only the monotonic age counts then, and without one the token is due.
        const age = byWall < 0 ? known : Math.max(byWall, Number.isNaN(known) ? 0 : known)
        return Number.isNaN(age) ? 0 : session.expires_in * 1_000 - age
      })

    const acquire = (
      deadline: Deadline,
      restore: <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<A, E>
    ) =>
      Effect.flatMap(name, (slot) => {
        const controller = new AbortController()
        const pending = Promise.resolve().then(() => lock.acquire(slot, controller.signal))
        return restore(
          within(
            deadline,
            "Another program or call holds the session lock; retry after a short pause."
          )(Effect.tryPromise({ try: () => pending, catch: storeFailed }))
        ).pipe(
          Effect.onError(() =>
            Effect.sync(() => {
              controller.abort()
              // The lock may be granted at the moment of the abort.
              pending.then((release) => release()).catch(() => undefined)
            })
          )
        )
      })

    const withLock: SessionSlot["withLock"] = (deadline) => (use) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.flatMap(acquire(deadline, restore), (release) =>
          Effect.ensuring(restore(use), Effect.ignore(Effect.tryPromise(() => release())))
        )
      )

    return {
      load,
      save,
      probe: (stored) =>
        asked((slot) => (store.probe === undefined ? store.save(slot, stored) : store.probe(slot, stored))),
      clear: Effect.suspend(() => {
        clears += 1
        return asked((slot) => store.clear(slot), storeMilliseconds)
      }),
      clears: () => clears,
      millisLeft,
      isDue: (session) =>
        Effect.map(millisLeft(session), (left) => left <= Math.min(longestMargin, session.expires_in * 100)),
      withLock,
      noteEnd: (reason) => {
        end = reason
      },
      ended: () => end,
      isOwn
    }
  })
