/** The schema of an action. A text that it refuses could not be shown, copied and repeated. */
import * as Schema from "effect/Schema"
import type { Action } from "./Protocol.ts"
import { webhookTypes } from "./WebhookTypes.ts"

/** Characters of a message or of JSON text, at most. */
const longestText = 65_536

/** Milliseconds of one step of the clock; a longer way takes several steps. */
const longestStep = 90 * 24 * 3_600_000

/** A text of a field. The refusal is a sentence for the person who filled it in. */
const text = (shortest: number, longest: number) =>
  Schema.String.pipe(
    Schema.filter(({ length }) =>
      length >= shortest && length <= longest
        ? undefined
        : `it has ${length} characters, and may have ${shortest} to ${longest}`
    )
  )

const Name = text(1, 255)
/** The value of a header, too. Empty: the session reaches none. */
const Org = text(0, 255).pipe(
  Schema.filter((name) => /^[\x21-\x7e]*$/.test(name) || "it may have visible ASCII characters only")
)
const Token = text(1, 8_192)
const LongText = text(0, longestText)
const Id = Schema.Int.pipe(Schema.positive())

const action = <Kind extends Action["kind"], Fields extends Schema.Struct.Fields>(
  kind: Kind,
  fields: Fields
) => Schema.Struct({ kind: Schema.Literal(kind), ...fields })

const person = { plane: Name, actor: Name }
const session = { session: Name }
const optionalSession = {
  session: Schema.NullOr(Name),
  org: Schema.NullOr(Org),
  plane: Schema.optionalWith(Name, { exact: true })
}

export const ActionSchema: Schema.Schema<Action> = Schema.Union(
  action("mint", person),
  action("login", { plane: Name, slt: Token }),
  action("me", { ...session, org: Org }),
  action("refresh", session),
  action("replayRefresh", session),
  action("reuseRefresh", session),
  action("logout", session),
  action("ting", { ...session, org: Org, type: Name, key: Name, data: LongText }),
  action("report", { ...optionalSession, message: LongText }),
  action("telemetry", { ...optionalSession, table: Name, type: Name, data: LongText }),
  action("webhook", {
    plane: Name,
    event: Schema.Literal(...webhookTypes.map(({ type }) => type)),
    actor: Schema.NullOr(Name),
    org: Schema.NullOr(Org),
    tamper: Schema.Boolean
  }),
  action("repeat", { action: Id }),
  action("addFault", {
    upstream: Schema.Literal("iam", "ting", "tables", "tracker"),
    route: Schema.NullOr(Name),
    fault: Schema.Literal("down", "slow", "rateLimited", "lost"),
    times: Schema.NullOr(Schema.Int.pipe(Schema.between(1, 1_000)))
  }),
  action("removeFault", { fault: Id }),
  action("advanceClock", { milliseconds: Schema.Int.pipe(Schema.between(1, longestStep)) })
)
