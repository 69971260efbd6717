/** The notification service as the backend needs it. Contract: notification-service.md. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { Proof, TingEndpoint } from "./Iam.ts"
import type { UpstreamFailure } from "./UpstreamFailure.ts"

/** A call whose body is serialised: these bytes are hashed, proved and sent, however often it is tried. */
export interface PreparedCall {
  readonly endpoint: TingEndpoint
  readonly body: Uint8Array
  /** What the answer is checked against: the recipient of a registration, the key of a ting. */
  readonly expected: string
}

export interface RegisteredRecipient {
  /** Starts with `sub_`. */
  readonly id: string
  readonly applicationId: string
  readonly recipient: string
}

export interface AcceptedTing {
  /** Starts with `msg_`. */
  readonly id: string
  readonly createdAt: string
  readonly key: string
  readonly silent: boolean
  /** Ting knew the key and the content: it answered 200 instead of 202. */
  readonly replayed: boolean
}

export interface TingService {
  readonly prepareRegistration: (recipient: {
    readonly organisation: string
    readonly publicId: string
  }) => PreparedCall
  readonly prepareTing: (message: {
    readonly organisation: string
    readonly recipient: string
    readonly type: string
    readonly key: string
    readonly data: Readonly<Record<string, unknown>>
    readonly metadata: Readonly<Record<string, unknown>> | undefined
  }) => PreparedCall
  /** Registers a recipient; re-activates a grant that the recipient revoked, so only an explicit wish of theirs may lead here. */
  readonly register: (call: PreparedCall, proof: Proof) => Effect.Effect<RegisteredRecipient, UpstreamFailure>
  readonly send: (call: PreparedCall, proof: Proof) => Effect.Effect<AcceptedTing, UpstreamFailure>
}

export class Ting extends Context.Tag("music/Ting")<Ting, TingService>() {}
