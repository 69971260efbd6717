/** The stored session of one server and plane: loaded, checked and saved, by one program at a time. */
import { clientFailure, failWith, unexpectedAnswer } from "../failures/Failures.ts"
import type { ReportEvent } from "../Events.ts"
import { deadlineMillisecondsOf, type MusicClientOptions } from "../Options.ts"
import type { LoggedOutReason } from "../Types.ts"
import { ignore, isGiven } from "../Values.ts"
import type { Session } from "../Contract.ts"
import type { Calls } from "../calls/Calls.ts"
import { type Deadline, type Moment, type Scope, within } from "../calls/Deadline.ts"
import { sha256 } from "../calls/Digest.ts"
import { addressOf } from "../calls/Requests.ts"
import { inTime, type Time, untilAborted } from "../calls/Time.ts"
import {
  infoOf,
  isStorable,
  type KeptMembers,
  readStored,
  silentStore,
  storeFailed,
  toStored
} from "./SessionRecord.ts"
import { memorySessionStore, processLock, type StoredSession } from "../stores/SessionStore.ts"

/** Milliseconds: an access token is refreshed this long before its end; a short-lived one in the last tenth of its life. */
const longestMargin = 60_000

type SessionSlot = ReturnType<typeof makeSessionSlot>

/** What logins, logouts, refreshes and signed calls work with. */
export interface SessionParts {
  readonly calls: Calls
  readonly slot: SessionSlot
  readonly report: ReportEvent
  readonly time: Time
}

export const makeSessionSlot = (
  options: MusicClientOptions,
  { report, time }: { readonly report: ReportEvent; readonly time: Time }
) => {
  const store = options.sessionStore ?? memorySessionStore()
  const lock = options.lock ?? store.lock ?? processLock()
  const isTesting = typeof options.testingKey === "string"
  const usual = deadlineMillisecondsOf(options)
  let end: LoggedOutReason | undefined
  let clears = 0
  // Monotonic time of the request for the current token: independent of the wall clock, while this program runs.
  let receipt: { readonly token: string; readonly at: number } | undefined
  /** The login that this program knows of, null for none; undefined while changes elsewhere are not watched. */
  let known: string | null | undefined

  /** The name of the slot: file-name-safe, with a digest of the testing secret. */
  let named: Promise<string> | undefined
  const name = async (): Promise<string> => {
    named ??= sha256(
      `music-client/v1\nslot\n${addressOf(options.baseUrl)}\n${options.testingKey ?? ""}`
    ).then((digest) => `${isTesting ? "testing" : "production"}-${digest.slice(0, 32)}`)
    return named
  }

  const isOwn = (session: { readonly testing_environment_id: string | null }) =>
    (session.testing_environment_id !== null) === isTesting

  /** Runs a part of the store, which may answer without a promise, throw, or never answer. */
  const asked = async <A>(run: (slot: string) => A | Promise<A>, by?: Deadline): Promise<A> => {
    const slot = await name()
    const answer = (async () => run(slot))()
    // Counted after the digest of the name, which may take a while: the call's own wait ends later.
    const left = by === undefined ? usual : Math.max(1, by.at - time.monotonic())
    return inTime(time, left, answer, () => silentStore).catch((cause) => failWith(storeFailed(cause)))
  }

  // A save waits for the writes before it, so that a late one never undoes it; but not for ever. A clearing does not wait: a
  // refresh checks after its save whether the session was forgotten.
  let writes: Promise<unknown> = Promise.resolve()
  const noteWrite = <A>(write: Promise<A>, login: string | null): Promise<A> => {
    const before = known
    if (known !== undefined) known = login
    const all = Promise.allSettled([writes, write])
    writes = inTime(time, usual, all, () => silentStore).catch(ignore)
    return write.catch((cause) => {
      // What was stored before is still there.
      if (known === login) known = before
      return Promise.reject(cause)
    })
  }
  const write = (stored: StoredSession, replaced: string | null) =>
    asked((slot) => {
      const saved = writes.then(() => store.save(slot, stored, replaced))
      return noteWrite(saved, stored.login_key)
    })

  /** The stored session, if there is one; another program may have stored it. A call does not wait beyond its deadline. */
  const find = async (by?: Deadline): Promise<StoredSession | undefined> => {
    const before = end
    const found = await asked((slot) => store.load(slot), by)
    if (!isGiven(found)) return undefined
    const stored = readStored(found, await name(), isOwn)
    if ("code" in stored) return failWith(stored)
    // Another program has logged in since. An end during the load is newer than its session.
    if (end === before) end = undefined
    return stored
  }

  const clear = (aside = false, replaced?: string): Promise<void> => {
    clears += 1
    return asked((slot) => noteWrite((async () => store.clear(slot, aside, replaced))(), null))
  }

  /** Saves a session again, unless another one was stored meanwhile, or it was forgotten: not every store compares. */
  const saveAgain = async (stored: StoredSession): Promise<void> => {
    const before = clears
    if ((await find())?.refresh_token === stored.refresh_token) await write(stored, stored.refresh_token)
    if (clears !== before) await clear()
  }

  const age = (session: StoredSession): number => {
    const byWall = time.now() - session.obtained_at
    const byReceipt = receipt?.token === session.access_token ? time.monotonic() - receipt.at : Number.NaN
    // A wall clock before `obtained_at` is wrong: only the monotonic age counts then, and without one the token is due.
    const found = byWall < 0 ? byReceipt : Math.max(byWall, Number.isNaN(byReceipt) ? 0 : byReceipt)
    return Number.isNaN(found) ? Number.POSITIVE_INFINITY : found
  }
  const millisLeft = (session: StoredSession): number => session.expires_in * 1_000 - age(session)

  const acquire = async ({ deadline, signal }: Scope): Promise<() => Promise<void>> => {
    const slot = await name()
    const controller = new AbortController()
    const pending = (async () => lock.acquire(slot, controller.signal))()
    deadline.hint = "Another program or call holds the session lock; retry after a short pause."
    try {
      return await within(time, deadline, untilAborted(signal, pending))
    } catch (cause) {
      controller.abort()
      // The lock may be granted at the moment of the abort.
      pending.then((release) => release()).catch(ignore)
      return await failWith(
        signal.aborted ? clientFailure("aborted", { cause: signal.reason }) : storeFailed(cause)
      )
    } finally {
      deadline.hint = undefined
    }
  }

  /** Runs under the lock of the store. The wait for the lock ends with the deadline, or when the caller leaves. */
  const withLock = async <A>(scope: Scope, use: () => Promise<A>): Promise<A> => {
    const release = await acquire(scope)
    try {
      return await use()
    } finally {
      await asked(() => release()).catch(ignore)
    }
  }

  /** Reports a login or logout of another tab or process. */
  const lookElsewhere = async (): Promise<void> => {
    await writes
    const before = known
    const stored = await find()
    // A write of this client is newer than what was read.
    if (known !== before) return
    known = stored?.login_key ?? null
    if (before === undefined || before === known) return
    if (stored === undefined) report({ type: "logged_out", reason: "elsewhere", requestId: null })
    else report({ type: "logged_in", session: infoOf(stored), elsewhere: true })
  }

  return {
    find,
    /** Saves a session; `sent` is the time of its request. `replaced`: see `SessionStore.save`. */
    save: async (session: Session, kept: KeptMembers, sent: Moment | undefined, replaced: string | null) => {
      const { monotonic, wall } = sent ?? { monotonic: 0, wall: 0 }
      const obtainedAt = Math.round(Math.min(wall, time.now() - (time.monotonic() - monotonic)))
      const stored = toStored(session, await name(), obtainedAt, kept)
      await write(stored, replaced)
      receipt = { token: stored.access_token, at: monotonic }
      return stored
    },
    /** Rejects when the stored session could not be replaced now; changes nothing. */
    probe: (stored: StoredSession): Promise<void> =>
      store.probe === undefined ? saveAgain(stored) : asked((slot) => store.probe?.(slot, stored)),
    /** Forgets the token that was spent for a session. */
    confirm: ({ spent_refresh_token: _, ...stored }: StoredSession): Promise<void> => saveAgain(stored),
    /** `aside`: the service has refused the session. `replaced`: see `SessionStore.clear`. */
    clear,
    /** How often this client has cleared the slot, also without the lock. */
    clears: () => clears,
    /** Milliseconds since the request for the tokens; infinite when no clock knows it. */
    age,
    /** Milliseconds until the access token expires. */
    millisLeft,
    isDue: (session: StoredSession): boolean =>
      millisLeft(session) <= Math.min(longestMargin, session.expires_in * 100),
    withLock,
    /** Remembers why the session ended, until another one is stored. */
    noteEnd: (reason: LoggedOutReason | undefined): void => {
      end = reason
      if (known !== undefined && reason !== undefined) known = null
    },
    ended: () => end,
    /** A received session; rejects when it is of another plane than the client's or of another actor, or more than a store takes. */
    check: async <A extends Session>(session: A, { public_id } = session.actor): Promise<A> => {
      if (!isOwn(session)) return failWith(unexpectedAnswer(200, "other_plane"))
      // A refresh never changes the actor: an intermediary has mixed up the answers to two callers.
      if (session.actor.public_id !== public_id) return failWith(unexpectedAnswer(200, "outside_contract"))
      return isStorable(session) ? session : failWith(unexpectedAnswer(200, "too_large"))
    },
    /** Reports logins and logouts of other tabs and processes until the returned function is called. */
    watch: (): (() => void) => {
      let stop: (() => void) | undefined
      let isOver = false
      const begin = async () => {
        const slot = await name()
        await lookElsewhere().catch(ignore)
        known ??= null
        if (!isOver) stop = store.watch?.(slot, () => void lookElsewhere().catch(ignore))
      }
      begin().catch(ignore)
      return () => {
        isOver = true
        stop?.()
      }
    }
  }
}
