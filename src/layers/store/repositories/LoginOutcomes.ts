import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { LoginOutcome, type LoginOutcomes } from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { first, run } from "../Query.ts"
import { Flag, OptionalText, toFlag } from "./Rows.ts"

const Row = Schema.Struct({
  subscribed: Flag,
  subscriptionId: OptionalText,
  error: OptionalText,
  refusal: OptionalText,
  transient: Flag
})

const toOutcome = ({
  error,
  refusal,
  subscribed,
  subscriptionId,
  transient
}: typeof Row.Type): LoginOutcome =>
  Option.isSome(refusal)
    ? LoginOutcome.Refusal({ reason: refusal.value })
    : LoginOutcome.Registration({
        ting: {
          subscribed,
          ...(Option.isSome(subscriptionId) ? { subscription_id: subscriptionId.value } : {}),
          ...(Option.isSome(error) ? { error: error.value } : {})
        },
        transient
      })

const toColumns = LoginOutcome.$match({
  Registration: ({ ting, transient }) => ({
    subscribed: toFlag(ting.subscribed),
    subscription_id: ting.subscription_id ?? null,
    error: ting.error ?? null,
    refusal: null,
    transient: toFlag(transient)
  }),
  Refusal: ({ reason }) => ({
    subscribed: toFlag(false),
    subscription_id: null,
    error: null,
    refusal: reason,
    transient: toFlag(true)
  })
})

/**
 * Milliseconds. IAM replays a login for 10 minutes, and treats its key as new after 24 hours (identity-service.md 4). A row older
 * than this belongs to no login that can be repeated, and the key's next login may be another caller's.
 */
const lifetime = 12 * 60 * 60 * 1_000

export const makeLoginOutcomes = ({ sql, read, write }: Database): LoginOutcomes => ({
  record: (key, plane, outcome) =>
    Effect.clockWith((clock) =>
      write("LoginOutcomes.record", () => {
        const now = clock.unsafeCurrentTimeMillis()
        const { error, refusal, subscribed, subscription_id, transient } = toColumns(outcome)
        // The first lasting outcome stays: a late attempt must not change what a replay answers.
        return run(sql`
          INSERT INTO login_outcomes
            (upstream_key, plane, subscribed, subscription_id, error, refusal, transient, recorded_at)
          VALUES
            (${key}, ${plane}, ${subscribed}, ${subscription_id}, ${error}, ${refusal}, ${transient}, ${now})
          ON CONFLICT (upstream_key) DO UPDATE SET
            subscribed = excluded.subscribed,
            subscription_id = excluded.subscription_id,
            error = excluded.error,
            refusal = excluded.refusal,
            transient = excluded.transient,
            recorded_at = excluded.recorded_at
          WHERE login_outcomes.transient = 1 OR login_outcomes.recorded_at <= ${now - lifetime}`)
      })
    ),
  find: (key) =>
    Effect.clockWith((clock) =>
      read(
        "LoginOutcomes.find",
        first(Row)(sql`
          SELECT subscribed, subscription_id, error, refusal, transient FROM login_outcomes
          WHERE upstream_key = ${key} AND recorded_at > ${clock.unsafeCurrentTimeMillis() - lifetime}`).map(
          Option.map(toOutcome)
        )
      )
    )
})
