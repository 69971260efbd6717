/** Everything that a test or a person may change or see from outside, in one object. */
import { apps } from "./Apps.ts"
import { environments } from "./Environments.ts"
import { events } from "./Events.ts"
import { logins } from "./Logins.ts"
import type { State } from "./Model.ts"
import { outbox } from "./Outbox.ts"
import { people } from "./People.ts"
import type { PostLimits } from "./WebhookSender.ts"

export const makeWorld = (state: State, limits?: PostLimits) => ({
  /** Every credential ever made here, so that a test can search logs and databases for them. */
  minted: state.minted,
  ...environments(state),
  ...people(state),
  ...apps(state),
  ...logins(state),
  ...outbox(state, limits),
  events: events(state)
})

/** Programmatic control; all of it takes effect at once, only delivering webhooks takes time. */
export type World = ReturnType<typeof makeWorld>
