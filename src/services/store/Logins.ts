/** The lane `logins`: outcomes of logins, testing planes, calls that a stopped process left, and the last backup. */
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { TingOutcome } from "../../schema/Session.ts"
import type { UpstreamKey } from "../Iam.ts"
import type { Database } from "./Database.ts"
import { overwritten, toFlag, valueOf, values, Whole } from "./Rows.ts"
import { all, any, run } from "./Statements.ts"

const lane = "logins"

/** How a login ended that IAM granted: registered with Ting or not, or refused by us. */
const Outcome = Schema.Union(
  // `transient`: it failed in a way that a later attempt may not.
  Schema.Data(Schema.TaggedStruct("Registration", { ting: TingOutcome, transient: Schema.Boolean })),
  // `reason` may be one that only a later version knows.
  Schema.Data(Schema.TaggedStruct("Refusal", { reason: Schema.String }))
)
export type LoginOutcome = typeof Outcome.Type
export const LoginOutcome = Data.taggedEnum<LoginOutcome>()

const storedOutcome = valueOf(Schema.parseJson(Outcome))

/**
 * Milliseconds. IAM replays a login for 10 minutes, and treats its key as new after 24 hours (identity-service.md 4). A row older
 * than this belongs to no login that can be repeated, and the key's next login may be another caller's.
 */
const lifetime = 12 * 60 * 60 * 1_000

export const makeLoginOutcomes = ({ read, sql, write }: Database) => ({
  /** Overwrites a refusal or a transient registration; the first lasting registration stays. */
  record: (key: UpstreamKey, outcome: LoginOutcome) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const transient = toFlag(outcome._tag === "Refusal" || outcome.transient)
      // A late attempt must not change what a replay answers.
      return run(sql`
        INSERT INTO login_outcomes (upstream_key, outcome, transient, recorded_at)
        VALUES (${key}, ${JSON.stringify(outcome)}, ${transient}, ${now})
        ON CONFLICT (upstream_key) DO UPDATE SET ${overwritten(sql, "outcome", "transient", "recorded_at")}
        WHERE login_outcomes.transient = 1 OR login_outcomes.recorded_at <= ${now - lifetime}`).pipe(
        write(lane, "LoginOutcomes.record")
      )
    }),
  find: (key: UpstreamKey) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      storedOutcome(sql`
        SELECT outcome AS value FROM login_outcomes
        WHERE upstream_key = ${key} AND recorded_at > ${now - lifetime}`).pipe(read("LoginOutcomes.find"))
    )
})

/** Testing environments that have used this service, by the digest of their webhook root key. */
export const makeKnownPlanes = ({ read, sql, write }: Database) => ({
  remember: (environmentId: string, webhookKeyDigest: string) =>
    // Every testing request calls this; only a change is worth a commit.
    Effect.unlessEffect(
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        run(sql`
          INSERT INTO known_planes ${values(sql, { environmentId, webhookKeyDigest, rememberedAt: now })}
          ON CONFLICT (environment_id) DO UPDATE SET
            ${overwritten(sql, "webhook_key_digest", "remembered_at")}`).pipe(
          write(lane, "KnownPlanes.remember")
        )
      ),
      any(sql`
        SELECT 1 FROM known_planes
        WHERE environment_id = ${environmentId} AND webhook_key_digest = ${webhookKeyDigest}`).pipe(
        read("KnownPlanes.isKnown")
      )
    ),
  /** The environment whose root key has this digest. */
  findByKeyDigest: (keyDigest: string) =>
    valueOf(Schema.String)(sql`
      SELECT environment_id AS value FROM known_planes WHERE webhook_key_digest = ${keyDigest}
      ORDER BY remembered_at DESC, environment_id LIMIT 1`).pipe(read("KnownPlanes.findByKeyDigest"))
})

/** A place in the budget for IAM that a stopped process had taken: plane and path, and milliseconds since the epoch. It names no caller. */
const LeftCall = Schema.Struct({ window: Schema.String, freeAt: Schema.Number })
const CallsRow = Schema.Struct({ calls: Schema.parseJson(Schema.Array(LeftCall)) })

/** What a process that stops leaves to its successor, so that both together keep within IAM's limit. */
export const makeIamCalls = ({ sql, write }: Database) => ({
  leave: (id: string, calls: ReadonlyArray<typeof LeftCall.Type>) =>
    run(sql`
      INSERT INTO iam_calls (id, calls) VALUES (${id}, ${JSON.stringify(calls)}) ON CONFLICT (id) DO NOTHING`).pipe(
      write(lane, "IamCalls.leave")
    ),
  /** Removes and returns what all stopped processes left. */
  take: () =>
    all(CallsRow)(sql`DELETE FROM iam_calls RETURNING calls`).pipe(
      write(lane, "IamCalls.take"),
      Effect.map((rows) => rows.flatMap(({ calls }) => calls))
    )
})

export type IamCalls = ReturnType<typeof makeIamCalls>

export const makeBackups = ({ read, sql }: Database) => ({
  /** When the last one was complete; none when no command recorded one. A snapshot of the disk is not recorded. */
  last: valueOf(Whole)(sql`SELECT completed_at AS value FROM last_backup WHERE id = 1`).pipe(
    read("Backups.last")
  )
})

/** Of the command `backup`. `completedAt`: milliseconds since the epoch. */
export const recordBackup = ({ sql, write }: Database, completedAt: number) =>
  run(sql`
    INSERT INTO last_backup (id, completed_at) VALUES (1, ${completedAt})
    ON CONFLICT (id) DO UPDATE SET ${overwritten(sql, "completed_at")}`).pipe(write(lane, "Backups.record"))
