import * as Effect from "effect/Effect"
import type { WebhookInbox } from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { any } from "./Rows.ts"

export const makeWebhookInbox = ({ sql, write, alone }: Database): WebhookInbox => ({
  receive: (event, removed) =>
    write(
      "Webhooks.receive",
      Effect.gen(function* () {
        yield* alone(`webhooks ${event.plane} ${event.aggregateType} ${event.aggregateId}`)
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
        if (removed.length === 0 || event.organisationUuid === null) return true

        // Versions order an aggregate's events (identity-service.md 11.5).
        const outdated = yield* any(sql`
          SELECT 1 FROM webhook_inbox
          WHERE plane = ${event.plane} AND aggregate_type = ${event.aggregateType}
            AND aggregate_id = ${event.aggregateId} AND aggregate_version > ${event.aggregateVersion}
          LIMIT 1`)
        if (outdated) return true
        // A removal that IAM could not deliver holds back the news that the person came again (11.6), so who registered
        // after it happened is not removed. In its own millisecond the removal wins: a registration that is forgotten
        // wrongly shows again with the next login or accepted ting. The two times are of two clocks, ours and IAM's, so
        // between events closer than these differ (`check` warns from 5 s) either may win, and heals in the same way.
        const happenedAt = Date.parse(event.occurredAt)
        yield* Effect.forEach(
          // In one order for everybody: two events may name the same people.
          [...removed].sort(),
          (publicId) => sql`
            UPDATE recipients SET active = 0, changed_at = ${event.receivedAt}
            WHERE plane = ${event.plane} AND organisation_uuid = ${event.organisationUuid}
              AND public_id = ${publicId} AND active = 1 AND changed_at <= ${happenedAt}`,
          { discard: true }
        )
        return true
      })
    )
})
