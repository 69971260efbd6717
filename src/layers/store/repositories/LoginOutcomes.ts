import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { TingOutcome } from "../../../schema/Session.ts"
import type { LoginOutcomes } from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { Flag, first, OptionalText, toFlag } from "./Rows.ts"

const Row = Schema.Struct({
  subscribed: Flag,
  subscriptionId: OptionalText,
  error: OptionalText,
  transient: Flag
})

const toOutcome = (row: typeof Row.Type): TingOutcome => ({
  subscribed: row.subscribed,
  ...(Option.isSome(row.subscriptionId) ? { subscription_id: row.subscriptionId.value } : {}),
  ...(Option.isSome(row.error) ? { error: row.error.value } : {})
})

/**
 * Milliseconds. IAM replays a login for 10 minutes, and takes its key for a new one after 24 hours (identity-service.md 4). A
 * record of an age between is of no login that can be repeated, and the key's next login may be another caller's.
 */
const lifetime = 12 * 60 * 60 * 1_000

export const makeLoginOutcomes = ({ sql, read, write }: Database): LoginOutcomes => ({
  record: (key, plane, { subscribed, subscription_id = null, error = null }, transient) =>
    write(
      "LoginOutcomes.record",
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        // The first lasting outcome stands: a late attempt must not change what a replay tells.
        yield* sql`
          INSERT INTO login_outcomes
            (upstream_key, plane, subscribed, subscription_id, error, transient, recorded_at)
          VALUES
            (${key}, ${plane}, ${toFlag(subscribed)}, ${subscription_id}, ${error}, ${toFlag(transient)}, ${now})
          ON CONFLICT (upstream_key) DO UPDATE SET
            subscribed = excluded.subscribed,
            subscription_id = excluded.subscription_id,
            error = excluded.error,
            transient = excluded.transient,
            recorded_at = excluded.recorded_at
          WHERE login_outcomes.transient = 1 OR login_outcomes.recorded_at <= ${now - lifetime}`
      })
    ),
  find: (key) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      read(
        "LoginOutcomes.find",
        first(Row)(sql`
          SELECT subscribed, subscription_id, error, transient FROM login_outcomes
          WHERE upstream_key = ${key} AND recorded_at > ${now - lifetime}`)
      )
    ).pipe(Effect.map(Option.map((row) => ({ outcome: toOutcome(row), transient: row.transient }))))
})
