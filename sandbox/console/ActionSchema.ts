/**
 * What a person does in the console. The schema refuses what could not be kept or sent; everything else the service judges. `plane` is
 * `production` or the id of a testing plane; `session` and `action` are ids of the state. The plane of a session counts before that of its
 * action.
 */
import * as Schema from "effect/Schema"

/** Characters of a text, at most: more than the service takes of any. */
const longestText = 300_000

/** Milliseconds of one step of the clock; a longer way takes several steps. */
const longestStep = 90 * 24 * 3_600_000

const Text = Schema.String.pipe(
  Schema.filter(
    ({ length }) => length <= longestText || `it has ${length} characters, and may have ${longestText}`
  )
)
/** The value of a header. Empty: none is sent. */
const Org = Text.pipe(
  Schema.filter((name) => /^[\x21-\x7e]*$/.test(name) || "it may have visible ASCII characters only")
)
const Id = Schema.Int.pipe(Schema.positive())

const action = <Kind extends string, Fields extends Schema.Struct.Fields>(kind: Kind, fields: Fields) =>
  Schema.Struct({ kind: Schema.Literal(kind), ...fields })

const session = { session: Text }
/** Without a session: a caller of the plane. */
const optionalSession = { session: Schema.NullOr(Text), org: Org, plane: Text }

export const Upstream = Schema.Literal("iam", "ting", "tables", "tracker")
/** `down`: the connection is dropped before anything happens. `lost`: the call takes effect, and its answer is dropped. */
export const FaultKind = Schema.Literal("down", "slow", "rateLimited", "lost")

export const ActionSchema = Schema.Union(
  action("mint", { plane: Text, actor: Text }),
  action("login", { plane: Text, slt: Text }),
  action("me", { ...session, org: Org }),
  action("refresh", session),
  // The spent refresh token again, under the key of its refresh: the answer is the same pair.
  action("replayRefresh", session),
  // The spent refresh token under a new key: a theft, which ends the family.
  action("reuseRefresh", session),
  action("logout", session),
  // `data` is JSON text.
  action("ting", { ...session, org: Org, type: Text, key: Text, data: Text }),
  action("report", { ...optionalSession, message: Text }),
  action("telemetry", { ...optionalSession, table: Text, type: Text, data: Text }),
  // `null` where the event is about none. `tamper` changes one byte of the body after it was signed.
  action("webhook", {
    plane: Text,
    event: Text,
    actor: Schema.NullOr(Text),
    org: Schema.NullOr(Org),
    tamper: Schema.Boolean
  }),
  // The same request once more, byte for byte, in a trace of its own.
  action("repeat", { action: Id }),
  // `route` is one of `State.routes`, or `null` for every call; `times` is `null` until it is removed.
  action("addFault", {
    upstream: Upstream,
    route: Schema.NullOr(Text),
    fault: FaultKind,
    times: Schema.NullOr(Schema.Int.pipe(Schema.between(1, 1_000)))
  }),
  action("removeFault", { fault: Id }),
  action("advanceClock", { milliseconds: Schema.Int.pipe(Schema.between(1, longestStep)) })
)
