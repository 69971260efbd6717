/** The stored session of one server and plane: loaded, checked and saved, by one program at a time. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { unexpectedAnswer } from "../calls/AnswerDecoder.ts"
import type { WireSession } from "../calls/Answers.ts"
import { type Deadline, monotonicMillis, within } from "../calls/Deadline.ts"
import { sha256 } from "../calls/IdempotencyKeys.ts"
import { addressOf } from "../calls/Requests.ts"
import { runLater } from "../calls/Timers.ts"
import { clientFailure, type MusicFailure, type OptionsProblem } from "../failures/Failures.ts"
import { deadlineMillisecondsOf, type MusicClientOptions } from "../Options.ts"
import { findOptionsProblem } from "../OptionsCheck.ts"
import { memorySessionStore, processLock, type StoredSession } from "../stores/SessionStore.ts"
import type { LoggedOutReason } from "../Types.ts"
import {
  isStorable,
  type KeptMembers,
  readStored,
  silentStore,
  type StoreFailed,
  storeFailed,
  toStored
} from "./SessionRecord.ts"

/** Milliseconds: an access token is refreshed this long before its end; a short-lived one in the last tenth of its life. */
const longestMargin = 60_000

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

const isTesting = (options: MusicClientOptions): boolean => typeof options.testingKey === "string"

const heldHint = "Another program or call holds the session lock; retry after a short pause."

/** Failures of loading and saving. */
export type SlotFailure = StoreFailed | OptionsProblem | MusicFailure<"unsupported">

export interface SessionSlot {
  /** The stored session; another program may have stored it. */
  readonly load: Effect.Effect<StoredSession, MusicFailure<"not_logged_in"> | SlotFailure>
  /** The same, for a call that ends at its deadline. */
  readonly loadBy: (deadline: Deadline) => SessionSlot["load"]
  /** Saves a session; `sentAt` is the monotonic time of its request, milliseconds. `replaced`: see `SessionStore.save`. */
  readonly save: (
    session: WireSession,
    kept: KeptMembers,
    sentAt: number,
    replaced: string | null
  ) => Effect.Effect<StoredSession, SlotFailure>
  /** Fails when the stored session could not be replaced now; changes nothing. */
  readonly probe: (stored: StoredSession) => Effect.Effect<void, SlotFailure>
  /** Saves a stored session without the token that was spent for it. */
  readonly confirm: (stored: StoredSession) => Effect.Effect<unknown, SlotFailure>
  readonly clear: Effect.Effect<void, SlotFailure>
  /** The same for a session that the service has refused. */
  readonly putAside: Effect.Effect<void, SlotFailure>
  /** How often this client has cleared the slot, also without the lock. */
  readonly clears: () => number
  /** Milliseconds since the request for the tokens; infinite when no clock knows it. */
  readonly age: (session: StoredSession) => Effect.Effect<number>
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
  /** A received session; fails when it is of another plane than the client's, or more than a store takes. */
  readonly check: <A extends WireSession>(session: A) => Effect.Effect<A, MusicFailure<"unexpected_answer">>
}

/** Rejects with `silentStore` when the promise does not end in time; not by an effect, because a save cannot be interrupted. */
const inTime = <A>(milliseconds: number, run: () => Promise<A>): Promise<A> =>
  new Promise((resolve, reject) => {
    const cancel = runLater(milliseconds, () => reject(silentStore))
    run().then(resolve, reject).finally(cancel)
  })

export const makeSessionSlot = (options: MusicClientOptions): Effect.Effect<SessionSlot> =>
  Effect.gen(function* () {
    const store = options.sessionStore ?? memorySessionStore()
    const lock = options.lock ?? store.lock ?? processLock()
    const name = yield* Effect.cached(nameOf(options))
    let end: LoggedOutReason | undefined
    let clears = 0
    // Monotonic time of the request for the current token: independent of the wall clock, while this program runs.
    let receipt: { readonly token: string; readonly at: number } | undefined

    const isOwn = (session: { readonly testing_environment_id: string | null }) =>
      (session.testing_environment_id !== null) === isTesting(options)

    /** Runs a part of the store, and gives up the wait for it: a store may never answer. */
    const asked = <A>(run: (slot: string) => Promise<A>, milliseconds?: number) =>
      Effect.flatMap(name, (slot) =>
        Effect.tryPromise({
          // A store may answer without a promise.
          try: () => inTime(milliseconds ?? deadlineMillisecondsOf(options), async () => run(slot)),
          catch: (cause) => (cause === silentStore ? silentStore : storeFailed(cause))
        })
      )

    // A save waits for the writes before it, so that a late one never undoes it; but not for ever. A clearing does not wait: a
    // refresh checks after its save whether the session was forgotten.
    let writes: Promise<unknown> = Promise.resolve()
    const noteWrite = <A>(write: Promise<A>): Promise<A> => {
      const all = Promise.allSettled([writes, write])
      writes = inTime(deadlineMillisecondsOf(options), () => all).catch(() => undefined)
      return write
    }
    const saved = (stored: StoredSession, replaced: string | null) =>
      asked((slot) => noteWrite(writes.then(() => store.save(slot, stored, replaced))))

    const loadIn = (milliseconds?: number) =>
      Effect.gen(function* () {
        const before = end
        const found = yield* asked((slot) => store.load(slot), milliseconds)
        if (found === undefined || found === null) return yield* clientFailure("not_logged_in")
        const stored = readStored(found, yield* name, isOwn)
        if ("_tag" in stored) return yield* stored
        // Another program has logged in since. An end during the load is newer than its session.
        if (end === before) end = undefined
        return stored
      })

    const save: SessionSlot["save"] = (session, kept, sentAt, replaced) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const obtainedAt = Math.round(now - ((yield* monotonicMillis) - sentAt))
        const stored = toStored(session, yield* name, obtainedAt, kept)
        yield* saved(stored, replaced)
        receipt = { token: stored.access_token, at: sentAt }
        return stored
      })

    const age: SessionSlot["age"] = (session) =>
      Effect.gen(function* () {
        const byWall = (yield* Clock.currentTimeMillis) - session.obtained_at
        const known =
          receipt?.token === session.access_token ? (yield* monotonicMillis) - receipt.at : Number.NaN
        // A wall clock before `obtained_at` is wrong: only the monotonic age counts then, and without one the token is due.
        const found = byWall < 0 ? known : Math.max(byWall, Number.isNaN(known) ? 0 : known)
        return Number.isNaN(found) ? Number.POSITIVE_INFINITY : found
      })

    const millisLeft: SessionSlot["millisLeft"] = (session) =>
      Effect.map(age(session), (passed) => Math.max(0, session.expires_in * 1_000 - passed))

    const acquire = (
      deadline: Deadline,
      restore: <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<A, E>
    ) =>
      Effect.flatMap(name, (slot) => {
        const controller = new AbortController()
        const pending = Promise.resolve().then(() => lock.acquire(slot, controller.signal))
        deadline.hint = heldHint
        return restore(within(deadline)(Effect.tryPromise({ try: () => pending, catch: storeFailed }))).pipe(
          Effect.ensuring(
            Effect.sync(() => {
              deadline.hint = undefined
            })
          ),
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
          Effect.ensuring(restore(use), Effect.ignore(asked(() => release())))
        )
      )

    const clear = (aside: boolean) =>
      Effect.suspend(() => {
        clears += 1
        return asked((slot) => noteWrite(Promise.resolve().then(() => store.clear(slot, aside))))
      })

    return {
      load: loadIn(),
      loadBy: (deadline) => Effect.flatMap(monotonicMillis, (now) => loadIn(Math.max(1, deadline.at - now))),
      save,
      probe: (stored) => {
        const { probe } = store
        return probe === undefined
          ? saved(stored, stored.refresh_token)
          : asked((slot) => probe(slot, stored))
      },
      confirm: ({ spent_refresh_token: _, ...stored }) => saved(stored, stored.refresh_token),
      clear: clear(false),
      putAside: clear(true),
      clears: () => clears,
      age,
      millisLeft,
      isDue: (session) =>
        Effect.map(millisLeft(session), (left) => left <= Math.min(longestMargin, session.expires_in * 100)),
      withLock,
      noteEnd: (reason) => {
        end = reason
      },
      ended: () => end,
      check: (session) => {
        if (!isOwn(session)) return Effect.fail(unexpectedAnswer(200, "other_plane"))
        return isStorable(session) ? Effect.succeed(session) : Effect.fail(unexpectedAnswer(200, "too_large"))
      }
    }
  })
