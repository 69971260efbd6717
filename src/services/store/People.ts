/** The lane `people`: who is registered with Ting, the inbox of webhooks that end registrations, and the digests of sessions. */
import { createHmac } from "node:crypto"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { sha256 } from "../Digest.ts"
import type { PlaneId } from "../Plane.ts"
import type { Database } from "./Database.ts"
import { values, Whole } from "./Rows.ts"
import { any, first, run, runInChunks } from "./Statements.ts"

const lane = "people"

interface Recipient {
  readonly plane: PlaneId
  readonly organisation: string
  readonly publicId: string
}
/** An organisation that was made anew under its name has another UUID, and none of the registrations. */
type Member = Recipient & { readonly organisationUuid: string }

/** People registered with Ting, as far as this service knows: one row per plane, organisation and actor. */
export const makeRecipients = ({ read, sql, write }: Database) => ({
  /** Without a subscription an accepted ting is the evidence. */
  activate: ({ subscriptionId = null, ...member }: Member & { readonly subscriptionId?: string | null }) =>
    // Every accepted ting calls this; without a change nothing is written, and no disk sync is waited for. A registration
    // is always written: its time decides between it and a removal (see `receive`).
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      run(sql`
        INSERT INTO recipients ${values(sql, { ...member, subscriptionId, active: 1, changedAt: now })}
        ON CONFLICT (plane, organisation, public_id) DO UPDATE SET
          organisation_uuid = excluded.organisation_uuid,
          subscription_id = COALESCE(excluded.subscription_id, recipients.subscription_id),
          active = 1,
          changed_at = excluded.changed_at
        WHERE recipients.active = 0
          OR recipients.organisation_uuid <> excluded.organisation_uuid
          OR excluded.subscription_id IS NOT NULL`).pipe(write(lane, "Recipients.activate"))
    ),
  /** Ting refused a ting that was sent at `sentAt`; a registration that was recorded later stays. */
  deactivate: ({ plane, organisation, publicId }: Recipient, sentAt: number) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      run(sql`
        UPDATE recipients SET active = 0, changed_at = ${now}
        WHERE plane = ${plane} AND organisation = ${organisation} AND public_id = ${publicId} AND active = 1
          AND changed_at <= ${sentAt}`).pipe(write(lane, "Recipients.deactivate"))
    ),
  isActive: ({ plane, organisation, organisationUuid, publicId }: Member) =>
    any(sql`
      SELECT 1 FROM recipients
      WHERE plane = ${plane} AND organisation = ${organisation} AND public_id = ${publicId}
        AND organisation_uuid = ${organisationUuid} AND active = 1`).pipe(read("Recipients.isActive"))
})

export const InboxEvent = Schema.Struct({
  plane: Schema.String,
  eventId: Schema.String,
  eventType: Schema.String,
  occurredAt: Schema.String,
  organisationUuid: Schema.NullOr(Schema.String),
  aggregateType: Schema.String,
  aggregateId: Schema.String,
  aggregateVersion: Whole,
  /** JSON text of `data`. */
  data: Schema.String,
  receivedAt: Whole
})
export type InboxEvent = typeof InboxEvent.Type

export const makeWebhookInbox = ({ sql, write }: Database) => ({
  /**
   * Commits an event and its effect in one transaction; false, without effect, when (plane, event id) is known already.
   * The registrations of the `removed` people in the event's organisation become inactive, unless a newer version of the
   * aggregate was received or they registered after the event happened. The session digests of the `named` actors
   * (`actorDigest`) are removed.
   */
  receive: (event: InboxEvent, removed: ReadonlyArray<string>, named: ReadonlyArray<string> = []) =>
    Effect.gen(function* () {
      const { aggregateId, aggregateType, aggregateVersion, organisationUuid, plane, receivedAt } = event
      const fresh = yield* any(sql`
        INSERT INTO webhook_inbox ${values(sql, event)}
        ON CONFLICT (plane, event_id) DO NOTHING
        RETURNING event_id`)
      if (!fresh) return false
      yield* runInChunks(named, (some) => sql`DELETE FROM session_digests WHERE ${sql.in("actor", some)}`)
      // Versions order an aggregate's events (identity-service.md 11.5).
      // A removal that IAM could not deliver also holds back the event that the person joined again (11.6), so a person who
      // registered after the removal happened stays. In the same millisecond the removal wins: a registration that was
      // ended wrongly returns with the next login or accepted ting. The times come from two clocks, ours and IAM's: between
      // events closer than their difference (`check` warns from 5 s) either may win, and is corrected in the same way.
      yield* runInChunks(
        removed,
        (some) => sql`
          UPDATE recipients SET active = 0, changed_at = ${receivedAt}
          WHERE plane = ${plane} AND organisation_uuid = ${organisationUuid}
            AND ${sql.in("public_id", some)} AND active = 1 AND changed_at <= ${Date.parse(event.occurredAt)}
            AND NOT EXISTS (
              SELECT 1 FROM webhook_inbox
              WHERE plane = ${plane} AND aggregate_type = ${aggregateType}
                AND aggregate_id = ${aggregateId} AND aggregate_version > ${aggregateVersion})`
      )
      return true
    }).pipe(write(lane, "Webhooks.receive"))
})

/** Of this use only: no other table has a digest with it. */
const label = "music-backend session digest"

/** The stored digest of a token, from its key in memory, which names its plane and SHA-256. */
export const sessionDigest = (tokenKey: string): string => sha256(`${label}\n${tokenKey}`)

/** Keyed, because public ids can be guessed, and log in to a testing plane. Another secret gives another digest. */
export const actorDigest = (secret: Redacted.Redacted, plane: PlaneId, publicId: string): string =>
  createHmac("sha256", Redacted.value(secret)).update(`${label}\n${plane} ${publicId}`).digest("hex")

/** What the tokens of one login have in common. */
const StoredLogin = Schema.Struct({
  /** The digest of the refresh token from which they descend. */
  login: Schema.String,
  /** The digest of the actor; null until IAM names it. */
  actor: Schema.NullOr(Schema.String)
})
type StoredLogin = typeof StoredLogin.Type

export interface StoredToken {
  readonly digest: string
  /** Milliseconds since the epoch. */
  readonly endsAt: number
}

/** Digests of the tokens that logins and refreshes handed out. A row only ranks a call in the budget for IAM. */
export const makeSessionDigests = ({ read, sql, write }: Database) => ({
  /** A token that is stored already keeps its login and the earlier one of its ends. */
  remember: ({ actor, login }: StoredLogin, tokens: ReadonlyArray<StoredToken>) =>
    // A replay states the times of an issue that was earlier.
    run(sql`
      INSERT INTO session_digests ${values(sql, ...tokens.map((token) => ({ ...token, login, actor })))}
      ON CONFLICT (digest) DO UPDATE SET
        actor = COALESCE(excluded.actor, session_digests.actor),
        ends_at = CASE
          WHEN excluded.ends_at < session_digests.ends_at THEN excluded.ends_at
          ELSE session_digests.ends_at END`).pipe(write(lane, "SessionDigests.remember")),
  /** The login of a token that has not ended. */
  find: (digest: string) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      first(StoredLogin)(sql`
        SELECT login, actor FROM session_digests WHERE digest = ${digest} AND ends_at > ${now}`).pipe(
        read("SessionDigests.find")
      )
    ),
  forgetToken: (digest: string) =>
    run(sql`DELETE FROM session_digests WHERE digest = ${digest}`).pipe(
      write(lane, "SessionDigests.forgetToken")
    ),
  forgetLogin: (login: string) =>
    run(sql`DELETE FROM session_digests WHERE login = ${login}`).pipe(
      write(lane, "SessionDigests.forgetLogin")
    )
})

export type SessionDigests = ReturnType<typeof makeSessionDigests>
