import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { KnownPlanes } from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { any, first, run } from "../Query.ts"

const Row = Schema.Struct({ environmentId: Schema.String })

export const makeKnownPlanes = ({ sql, read, write }: Database): KnownPlanes => ({
  remember: ({ environmentId, webhookKeyDigest, now }) =>
    // Every testing request calls this; only a change is worth a commit.
    read(
      "KnownPlanes.isKnown",
      any(sql`
        SELECT 1 FROM known_planes
        WHERE environment_id = ${environmentId} AND webhook_key_digest = ${webhookKeyDigest}`)
    ).pipe(
      Effect.flatMap((known) =>
        known
          ? Effect.void
          : write("KnownPlanes.remember", () =>
              run(sql`
                INSERT INTO known_planes (environment_id, webhook_key_digest, remembered_at)
                VALUES (${environmentId}, ${webhookKeyDigest}, ${now})
                ON CONFLICT (environment_id) DO UPDATE SET
                  webhook_key_digest = excluded.webhook_key_digest,
                  remembered_at = excluded.remembered_at`)
            )
      )
    ),
  findByKeyDigest: (keyDigest) =>
    read(
      "KnownPlanes.findByKeyDigest",
      first(Row)(sql`
        SELECT environment_id FROM known_planes WHERE webhook_key_digest = ${keyDigest}
        ORDER BY remembered_at DESC, environment_id LIMIT 1`).map(Option.map((row) => row.environmentId))
    )
})
