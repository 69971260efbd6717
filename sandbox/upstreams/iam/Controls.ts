/** Programmatic control of the simulated IAM: everything that a test or the sandbox changes or reads from outside. */
import { apps } from "./Apps.ts"
import { environments } from "./Environments.ts"
import { events } from "./Events.ts"
import { logins } from "./Logins.ts"
import type { State } from "./Model.ts"
import { people } from "./People.ts"
import { webhooks } from "./WebhookSignature.ts"

export const makeControls = (state: State) => ({
  ...environments(state),
  ...people(state),
  ...apps(state),
  ...logins(state),
  ...webhooks(state),
  events: events(state)
})

/** Every control is synchronous. An unknown name throws. */
export type IamControls = ReturnType<typeof makeControls>
