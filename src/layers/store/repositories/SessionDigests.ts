import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { SessionDigests } from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { first, run } from "../Query.ts"

const Row = Schema.Struct({
  login: Schema.String,
  actor: Schema.transform(Schema.NullOr(Schema.String), Schema.UndefinedOr(Schema.String), {
    strict: true,
    decode: (stored) => stored ?? undefined,
    encode: (actor) => actor ?? null
  })
})

export const makeSessionDigests = ({ sql, read, write }: Database): SessionDigests => ({
  remember: (plane, { actor, login }, tokens) =>
    write("SessionDigests.remember", () =>
      // A replay states the times of an issue that was earlier.
      run(sql`
        INSERT INTO session_digests ${sql.insert(
          tokens.map(({ digest, endsAt, kind }) => ({
            digest,
            plane,
            kind,
            login,
            actor: actor ?? null,
            ends_at: endsAt
          }))
        )}
        ON CONFLICT (digest) DO UPDATE SET
          actor = COALESCE(excluded.actor, session_digests.actor),
          ends_at = CASE
            WHEN excluded.ends_at < session_digests.ends_at THEN excluded.ends_at
            ELSE session_digests.ends_at END`)
    ),
  find: (digest) =>
    Effect.clockWith((clock) =>
      read(
        "SessionDigests.find",
        first(Row)(sql`
          SELECT login, actor FROM session_digests
          WHERE digest = ${digest} AND ends_at > ${clock.unsafeCurrentTimeMillis()}`)
      )
    ),
  nameActor: (login, actor) =>
    write("SessionDigests.nameActor", () =>
      run(sql`UPDATE session_digests SET actor = ${actor} WHERE login = ${login}`)
    ),
  forgetToken: (digest) =>
    write("SessionDigests.forgetToken", () => run(sql`DELETE FROM session_digests WHERE digest = ${digest}`)),
  forgetLogin: (login) =>
    write("SessionDigests.forgetLogin", () => run(sql`DELETE FROM session_digests WHERE login = ${login}`))
})
