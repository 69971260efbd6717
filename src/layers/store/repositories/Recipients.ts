import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Recipients } from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { first, run } from "../Query.ts"
import { Flag } from "./Rows.ts"

const Row = Schema.Struct({ active: Flag })

export const makeRecipients = ({ sql, read, write }: Database): Recipients => ({
  activate: ({ plane, organisation, organisationUuid, publicId, subscriptionId = null }) =>
    // Every accepted ting calls this; without a change nothing is written, and no disk sync is waited for. A registration
    // is always written: its time decides between it and a removal (WebhookInbox.ts).
    Effect.clockWith((clock) =>
      write("Recipients.activate", () =>
        run(sql`
          INSERT INTO recipients
            (plane, organisation, organisation_uuid, public_id, subscription_id, active, changed_at)
          VALUES
            (${plane}, ${organisation}, ${organisationUuid}, ${publicId}, ${subscriptionId}, 1,
             ${clock.unsafeCurrentTimeMillis()})
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
    Effect.clockWith((clock) =>
      write("Recipients.deactivate", () =>
        run(sql`
          UPDATE recipients SET active = 0, changed_at = ${clock.unsafeCurrentTimeMillis()}
          WHERE plane = ${plane} AND organisation = ${organisation} AND public_id = ${publicId} AND active = 1`)
      )
    ),
  isActive: ({ plane, organisation, publicId }) =>
    read(
      "Recipients.isActive",
      first(Row)(sql`
        SELECT active FROM recipients
        WHERE plane = ${plane} AND organisation = ${organisation} AND public_id = ${publicId}`).map(
        Option.exists(({ active }) => active)
      )
    )
})
