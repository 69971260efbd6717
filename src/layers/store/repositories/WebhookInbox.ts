import type { WebhookInbox } from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { any, lock, run, runInChunks } from "../Query.ts"

export const makeWebhookInbox = ({ sql, write }: Database): WebhookInbox => ({
  receive: (event, removed, named = []) =>
    write("Webhooks.receive", function* () {
      yield* lock(`webhooks ${event.plane} ${event.aggregateType} ${event.aggregateId}`)
      const fresh = yield* any(sql`
          INSERT INTO webhook_inbox
            (plane, event_id, event_type, occurred_at, organisation_uuid, aggregate_type, aggregate_id,
             aggregate_version, data, received_at)
          VALUES
            (${event.plane}, ${event.eventId}, ${event.eventType}, ${event.occurredAt}, ${event.organisationUuid},
             ${event.aggregateType}, ${event.aggregateId}, ${event.aggregateVersion}, ${event.data},
             ${event.receivedAt})
          ON CONFLICT (plane, event_id) DO NOTHING
          RETURNING event_id`)
      if (!fresh) return false
      yield* runInChunks(named, (some) => sql`DELETE FROM session_digests WHERE ${sql.in("actor", some)}`)
      if (removed.length === 0 || event.organisationUuid === null) return true

      // Versions order an aggregate's events (identity-service.md 11.5).
      const outdated = yield* any(sql`
          SELECT 1 FROM webhook_inbox
          WHERE plane = ${event.plane} AND aggregate_type = ${event.aggregateType}
            AND aggregate_id = ${event.aggregateId} AND aggregate_version > ${event.aggregateVersion}
          LIMIT 1`)
      if (outdated) return true
      // A removal that IAM could not deliver also holds back the event that the person joined again (11.6), so a person who
      // registered after the removal happened stays. In the same millisecond the removal wins: a registration that was
      // ended wrongly returns with the next login or accepted ting. The times come from two clocks, ours and IAM's: between
      // events closer than their difference (`check` warns from 5 s) either may win, and is corrected in the same way.
      const happenedAt = Date.parse(event.occurredAt)
      // Sorted, so that two events that name the same people lock them in one order.
      for (const publicId of [...removed].sort())
        yield* run(sql`
            UPDATE recipients SET active = 0, changed_at = ${event.receivedAt}
            WHERE plane = ${event.plane} AND organisation_uuid = ${event.organisationUuid}
              AND public_id = ${publicId} AND active = 1 AND changed_at <= ${happenedAt}`)
      return true
    })
})
