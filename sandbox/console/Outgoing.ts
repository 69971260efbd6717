import type { Participant } from "./Protocol.ts"

/** A request of an action, as it can be sent once more. */
export interface Outgoing {
  readonly from: Participant
  readonly to: Participant
  /** The plane of the session that its answer may carry. */
  readonly plane: string
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
  /** Ids that it gives to what it makes. */
  readonly makes: ReadonlyArray<string>
}
