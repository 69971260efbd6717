/** The port of the notification service (Ting). Contract: notification-service.md. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { SentTing, Subscription, TingRequest } from "../schema/Ting.ts"
import type { Proof, TingEndpoint } from "./Iam.ts"
import type { UpstreamFailure } from "./UpstreamFailure.ts"

/** A call with its serialised body: exactly these bytes are hashed, proved and sent at every attempt. */
export interface PreparedCall {
  readonly endpoint: TingEndpoint
  readonly body: Uint8Array
  /** The value that the response must repeat: the recipient of a registration, the key of a ting. */
  readonly expected: string
}

interface TingService {
  readonly prepareRegistration: (recipient: {
    readonly organisation: string
    readonly publicId: string
  }) => PreparedCall
  readonly prepareTing: (
    ting: TingRequest & { readonly organisation: string; readonly recipient: string }
  ) => PreparedCall
  /** Registers a recipient. Re-activates a grant that the recipient revoked, so call it only at their explicit request. */
  readonly register: (call: PreparedCall, proof: Proof) => Effect.Effect<Subscription, UpstreamFailure>
  readonly send: (call: PreparedCall, proof: Proof) => Effect.Effect<SentTing, UpstreamFailure>
}

export class Ting extends Context.Tag("music/Ting")<Ting, TingService>() {}
