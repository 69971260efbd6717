/** The lane `logins`: outcomes of logins, testing planes, calls that a stopped process left, and the last backup. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import {
  type Backups,
  type IamCalls,
  type KnownPlanes,
  LoginOutcome,
  type LoginOutcomes,
  type Stored
} from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { all, any, first, run } from "../Statements.ts"
import { Flag, OptionalText, toFlag, Whole } from "./Rows.ts"

const lane = "logins"

const OutcomeRow = Schema.Struct({
  subscribed: Flag,
  subscriptionId: OptionalText,
  error: OptionalText,
  refusal: OptionalText,
  transient: Flag
})

const toOutcome = ({ refusal, transient, ...row }: typeof OutcomeRow.Type): LoginOutcome =>
  Option.match(refusal, {
    onSome: (reason) => LoginOutcome.Refusal({ reason }),
    onNone: () =>
      LoginOutcome.Registration({
        ting: {
          subscribed: row.subscribed,
          ...(Option.isSome(row.subscriptionId) ? { subscription_id: row.subscriptionId.value } : {}),
          ...(Option.isSome(row.error) ? { error: row.error.value } : {})
        },
        transient
      })
  })

/**
 * Milliseconds. IAM replays a login for 10 minutes, and treats its key as new after 24 hours (identity-service.md 4). A row older
 * than this belongs to no login that can be repeated, and the key's next login may be another caller's.
 */
const lifetime = 12 * 60 * 60 * 1_000

export const makeLoginOutcomes = ({ read, sql, write }: Database): LoginOutcomes => ({
  record: (key, plane, outcome) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const refusal = outcome._tag === "Refusal" ? outcome.reason : null
      const ting = outcome._tag === "Registration" ? outcome.ting : { subscribed: false }
      const transient = toFlag(outcome._tag === "Refusal" || outcome.transient)
      // The first lasting outcome stays: a late attempt must not change what a replay answers.
      return write(lane)(
        "LoginOutcomes.record",
        run(sql`
          INSERT INTO login_outcomes
            (upstream_key, plane, subscribed, subscription_id, error, refusal, transient, recorded_at)
          VALUES
            (${key}, ${plane}, ${toFlag(ting.subscribed)}, ${ting.subscription_id ?? null}, ${ting.error ?? null},
             ${refusal}, ${transient}, ${now})
          ON CONFLICT (upstream_key) DO UPDATE SET
            subscribed = excluded.subscribed,
            subscription_id = excluded.subscription_id,
            error = excluded.error,
            refusal = excluded.refusal,
            transient = excluded.transient,
            recorded_at = excluded.recorded_at
          WHERE login_outcomes.transient = 1 OR login_outcomes.recorded_at <= ${now - lifetime}`)
      )
    }),
  find: (key) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      read(
        "LoginOutcomes.find",
        first(OutcomeRow)(sql`
          SELECT subscribed, subscription_id, error, refusal, transient FROM login_outcomes
          WHERE upstream_key = ${key} AND recorded_at > ${now - lifetime}`)
      )
    ).pipe(Effect.map(Option.map(toOutcome)))
})

const PlaneRow = Schema.Struct({ environmentId: Schema.String })

export const makeKnownPlanes = ({ read, sql, write }: Database): KnownPlanes => ({
  remember: ({ environmentId, webhookKeyDigest, now }) =>
    // Every testing request calls this; only a change is worth a commit.
    Effect.unlessEffect(
      write(lane)(
        "KnownPlanes.remember",
        run(sql`
          INSERT INTO known_planes (environment_id, webhook_key_digest, remembered_at)
          VALUES (${environmentId}, ${webhookKeyDigest}, ${now})
          ON CONFLICT (environment_id) DO UPDATE SET
            webhook_key_digest = excluded.webhook_key_digest,
            remembered_at = excluded.remembered_at`)
      ),
      read(
        "KnownPlanes.isKnown",
        any(sql`
          SELECT 1 FROM known_planes
          WHERE environment_id = ${environmentId} AND webhook_key_digest = ${webhookKeyDigest}`)
      )
    ),
  findByKeyDigest: (keyDigest) =>
    Effect.map(
      read(
        "KnownPlanes.findByKeyDigest",
        first(PlaneRow)(sql`
          SELECT environment_id FROM known_planes WHERE webhook_key_digest = ${keyDigest}
          ORDER BY remembered_at DESC, environment_id LIMIT 1`)
      ),
      Option.map((row) => row.environmentId)
    )
})

const CallsRow = Schema.Struct({
  calls: Schema.parseJson(Schema.Array(Schema.Struct({ window: Schema.String, freeAt: Schema.Number })))
})

export const makeIamCalls = ({ sql, write }: Database): IamCalls => ({
  leave: (id, calls) =>
    write(lane)(
      "IamCalls.leave",
      run(sql`
        INSERT INTO iam_calls (id, calls) VALUES (${id}, ${JSON.stringify(calls)}) ON CONFLICT (id) DO NOTHING`)
    ),
  take: () =>
    Effect.map(
      write(lane)("IamCalls.take", all(CallsRow)(sql`DELETE FROM iam_calls RETURNING calls`)),
      (rows) => rows.flatMap(({ calls }) => calls)
    )
})

export const makeBackups = ({ read, sql }: Database): Backups => ({
  last: Effect.map(
    read(
      "Backups.last",
      first(Schema.Struct({ completedAt: Whole }))(sql`SELECT completed_at FROM last_backup WHERE id = 1`)
    ),
    Option.map(({ completedAt }) => completedAt)
  )
})

/** Of the command `backup`. `completedAt`: milliseconds since the epoch. */
export const recordBackup = ({ sql, write }: Database, completedAt: number): Stored<void> =>
  write(lane)(
    "Backups.record",
    run(sql`
      INSERT INTO last_backup (id, completed_at) VALUES (1, ${completedAt})
      ON CONFLICT (id) DO UPDATE SET completed_at = excluded.completed_at`)
  )
