/** The stored session of one server and plane: loaded, checked and saved, by one program at a time. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Actor } from "../src/schema/Identity.ts"
import { type Session, TingOutcome } from "../src/schema/Session.ts"
import { NotLoggedIn, StoreFailed, type TimedOut, type Unsupported } from "./Failures.ts"
import { sha256 } from "./IdempotencyKeys.ts"
import type { MusicClientOptions } from "./Options.ts"
import { type OptionsProblem, findOptionsProblem } from "./OptionsCheck.ts"
import { type Deadline, monotonicMillis, within } from "./Deadline.ts"
import { memorySessionStore, processLock, type StoredSession } from "./SessionStore.ts"

/** Milliseconds: an access token is refreshed this long before its end; a short-lived one in the last tenth of its life. */
const longestMargin = 60_000

const Stored = Schema.Struct({
  version: Schema.Literal(1),
  slot: Schema.String,
  access_token: Schema.String,
  refresh_token: Schema.String,
  expires_in: Schema.Number,
  obtained_at: Schema.Number,
  scope: Schema.String,
  actor: Actor,
  org_id: Schema.String,
  org_ids: Schema.Array(Schema.String),
  testing_environment_id: Schema.NullOr(Schema.String),
  login_key: Schema.String,
  ting: TingOutcome
})
const decodeStored = Schema.decodeUnknown(Stored)

const isTesting = (options: MusicClientOptions): boolean => typeof options.testingKey === "string"

const addressOf = (baseUrl: string): string => new URL(baseUrl).href.replace(/\/+$/, "")

/**
 * The name of the slot: file-name-safe, with a digest of the testing secret. Options with a problem have no slot, so a
 * wrong testing key can neither read nor clear the session of production.
 */
const nameOf = (options: MusicClientOptions): Effect.Effect<string, Unsupported | OptionsProblem> => {
  const problem = findOptionsProblem(options)
  if (problem !== undefined) return Effect.fail(problem)
  const text = `music-client/v1\nslot\n${addressOf(options.baseUrl)}\n${options.testingKey ?? ""}`
  return Effect.map(
    sha256(text),
    (digest) => `${isTesting(options) ? "testing" : "production"}-${digest.slice(0, 32)}`
  )
}

const storeFailed = (cause: unknown) => new StoreFailed({ cause })

/** Failures of loading and saving. */
export type SlotFailure = StoreFailed | Unsupported | OptionsProblem

export interface SessionSlot {
  /** The stored session; another program may have stored it. */
  readonly load: Effect.Effect<StoredSession, NotLoggedIn | SlotFailure>
  /** Saves a session; `sentAt` is the monotonic time of its request, milliseconds. */
  readonly save: (
    session: Session,
    kept: Pick<StoredSession, "login_key" | "ting">,
    sentAt: number
  ) => Effect.Effect<StoredSession, SlotFailure>
  /** Fails when the stored session could not be replaced now; changes nothing. */
  readonly probe: (stored: StoredSession) => Effect.Effect<void, SlotFailure>
  readonly clear: Effect.Effect<void, SlotFailure>
  /** Milliseconds until the access token expires. */
  readonly millisLeft: (session: StoredSession) => Effect.Effect<number>
  readonly isDue: (session: StoredSession) => Effect.Effect<boolean>
  /** Runs under the lock of the store. The wait for the lock ends with the deadline, or when it is interrupted. */
  readonly withLock: (
    deadline: Deadline
  ) => <A, E>(use: Effect.Effect<A, E>) => Effect.Effect<A, E | SlotFailure | TimedOut>
  /** Whether a session belongs to the plane of this client. */
  readonly isOwn: (session: Session) => boolean
}

export const makeSessionSlot = (options: MusicClientOptions): Effect.Effect<SessionSlot> =>
  Effect.gen(function* () {
    const store = options.sessionStore ?? memorySessionStore()
    const lock = options.lock ?? store.lock ?? processLock()
    const name = yield* Effect.cached(nameOf(options))
    // Monotonic time of the request for the current token: independent of the wall clock, while this program runs.
    let receipt: { readonly token: string; readonly at: number } | undefined

    const isOwn = (session: { readonly testing_environment_id: string | null }) =>
      (session.testing_environment_id !== null) === isTesting(options)

    const asked = <A>(run: (slot: string) => Promise<A>) =>
      Effect.flatMap(name, (slot) => Effect.tryPromise({ try: () => run(slot), catch: storeFailed }))

    const load: SessionSlot["load"] = Effect.gen(function* () {
      const found = yield* asked((slot) => store.load(slot))
      if (found === undefined || found === null) return yield* new NotLoggedIn({})
      const session = yield* Effect.mapError(decodeStored(found), storeFailed)
      return session.slot === (yield* name) && isOwn(session)
        ? session
        : yield* new StoreFailed({
            hint: "The store holds the session of another server or plane; clear the store."
          })
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
          actor: session.actor,
          org_id: session.org_id,
          org_ids: session.org_ids,
          testing_environment_id: session.testing_environment_id,
          ...kept
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
      clear: asked((slot) => store.clear(slot)),
      millisLeft,
      isDue: (session) =>
        Effect.map(millisLeft(session), (left) => left <= Math.min(longestMargin, session.expires_in * 100)),
      withLock,
      isOwn
    }
  })
