/** The lane `people`: who is registered with Ting, the inbox of webhooks that end registrations, and the digests of sessions. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Recipients, SessionDigests, WebhookInbox } from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { any, first, run, runInChunks } from "../Statements.ts"
import { Flag } from "./Rows.ts"

const lane = "people"

const ActiveRow = Schema.Struct({ active: Flag })

export const makeRecipients = ({ read, sql, write }: Database): Recipients => ({
  activate: ({ plane, organisation, organisationUuid, publicId, subscriptionId = null }) =>
    // Every accepted ting calls this; without a change nothing is written, and no disk sync is waited for. A registration
    // is always written: its time decides between it and a removal (see `receive`).
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      write(lane)(
        "Recipients.activate",
        run(sql`
          INSERT INTO recipients
            (plane, organisation, organisation_uuid, public_id, subscription_id, active, changed_at)
          VALUES
            (${plane}, ${organisation}, ${organisationUuid}, ${publicId}, ${subscriptionId}, 1, ${now})
          ON CONFLICT (plane, organisation, public_id) DO UPDATE SET
            organisation_uuid = excluded.organisation_uuid,
            subscription_id = COALESCE(excluded.subscription_id, recipients.subscription_id),
            active = 1,
            changed_at = excluded.changed_at
          WHERE recipients.active = 0
            OR recipients.organisation_uuid <> excluded.organisation_uuid
            OR excluded.subscription_id IS NOT NULL`)
      )
    ),
  deactivate: ({ plane, organisation, publicId }) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      write(lane)(
        "Recipients.deactivate",
        run(sql`
          UPDATE recipients SET active = 0, changed_at = ${now}
          WHERE plane = ${plane} AND organisation = ${organisation} AND public_id = ${publicId} AND active = 1`)
      )
    ),
  isActive: ({ plane, organisation, publicId }) =>
    Effect.map(
      read(
        "Recipients.isActive",
        first(ActiveRow)(sql`
          SELECT active FROM recipients
          WHERE plane = ${plane} AND organisation = ${organisation} AND public_id = ${publicId}`)
      ),
      Option.exists(({ active }) => active)
    )
})

export const makeWebhookInbox = ({ sql, write }: Database): WebhookInbox => ({
  receive: (event, removed, named = []) =>
    write(lane)(
      "Webhooks.receive",
      Effect.gen(function* () {
        const { aggregateId, aggregateType, aggregateVersion, organisationUuid, plane, receivedAt } = event
        const fresh = yield* any(sql`
          INSERT INTO webhook_inbox
            (plane, event_id, event_type, occurred_at, organisation_uuid, aggregate_type, aggregate_id,
             aggregate_version, data, received_at)
          VALUES
            (${plane}, ${event.eventId}, ${event.eventType}, ${event.occurredAt}, ${organisationUuid},
             ${aggregateType}, ${aggregateId}, ${aggregateVersion}, ${event.data}, ${receivedAt})
          ON CONFLICT (plane, event_id) DO NOTHING
          RETURNING event_id`)
        if (!fresh) return false
        yield* runInChunks(named, (some) => sql`DELETE FROM session_digests WHERE ${sql.in("actor", some)}`)
        if (removed.length === 0 || organisationUuid === null) return true

        // Versions order an aggregate's events (identity-service.md 11.5).
        const outdated = yield* any(sql`
          SELECT 1 FROM webhook_inbox
          WHERE plane = ${plane} AND aggregate_type = ${aggregateType}
            AND aggregate_id = ${aggregateId} AND aggregate_version > ${aggregateVersion}
          LIMIT 1`)
        if (outdated) return true
        // A removal that IAM could not deliver also holds back the event that the person joined again (11.6), so a person who
        // registered after the removal happened stays. In the same millisecond the removal wins: a registration that was
        // ended wrongly returns with the next login or accepted ting. The times come from two clocks, ours and IAM's: between
        // events closer than their difference (`check` warns from 5 s) either may win, and is corrected in the same way.
        yield* runInChunks(
          removed,
          (some) => sql`
            UPDATE recipients SET active = 0, changed_at = ${receivedAt}
            WHERE plane = ${plane} AND organisation_uuid = ${organisationUuid}
              AND ${sql.in("public_id", some)} AND active = 1 AND changed_at <= ${Date.parse(event.occurredAt)}`
        )
        return true
      })
    )
})

const LoginRow = Schema.Struct({
  login: Schema.String,
  actor: Schema.transform(Schema.NullOr(Schema.String), Schema.UndefinedOr(Schema.String), {
    strict: true,
    decode: (stored) => stored ?? undefined,
    encode: (actor) => actor ?? null
  })
})

export const makeSessionDigests = ({ read, sql, write }: Database): SessionDigests => ({
  remember: (plane, { actor = null, login }, tokens) =>
    write(lane)(
      "SessionDigests.remember",
      // A replay states the times of an issue that was earlier.
      run(sql`
        INSERT INTO session_digests ${sql.insert(
          tokens.map(({ digest, endsAt, kind }) => ({ digest, plane, kind, login, actor, ends_at: endsAt }))
        )}
        ON CONFLICT (digest) DO UPDATE SET
          actor = COALESCE(excluded.actor, session_digests.actor),
          ends_at = CASE
            WHEN excluded.ends_at < session_digests.ends_at THEN excluded.ends_at
            ELSE session_digests.ends_at END`)
    ),
  find: (digest) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      read(
        "SessionDigests.find",
        first(LoginRow)(sql`
          SELECT login, actor FROM session_digests WHERE digest = ${digest} AND ends_at > ${now}`)
      )
    ),
  nameActor: (login, actor) =>
    write(lane)(
      "SessionDigests.nameActor",
      run(sql`UPDATE session_digests SET actor = ${actor} WHERE login = ${login}`)
    ),
  forgetToken: (digest) =>
    write(lane)("SessionDigests.forgetToken", run(sql`DELETE FROM session_digests WHERE digest = ${digest}`)),
  forgetLogin: (login) =>
    write(lane)("SessionDigests.forgetLogin", run(sql`DELETE FROM session_digests WHERE login = ${login}`))
})
