/** The handler of an endpoint: a use case, given the values that the tags of the endpoint name (`api/Middleware.ts`). */
import type { IncomingMessage } from "node:http"
import type * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type { Failure } from "../../schema/Failure.ts"
import type { ActorType } from "../../schema/Identity.ts"
import type { WebhookEvent } from "../../services/Iam.ts"
import type { Plane } from "../../services/Plane.ts"
import type { Caller, Credential } from "../../services/RequestCredentials.ts"
import type { Bearer, IdempotencyKey, OptionalBearer, PlaneSelection, Signature } from "../api/Middleware.ts"

type AnyEndpoint = HttpApiEndpoint.HttpApiEndpoint.Any
type Payload<E extends AnyEndpoint> = HttpApiEndpoint.HttpApiEndpoint.Payload<E>
type Success<E extends AnyEndpoint> = HttpApiEndpoint.HttpApiEndpoint.Success<E>
type Tags<E extends AnyEndpoint> = HttpApiEndpoint.HttpApiEndpoint.Context<E>

type IfTagged<E extends AnyEndpoint, Tag, Value, Otherwise = unknown> = [Tag] extends [Tags<E>]
  ? Value
  : Otherwise

/** Values of every endpoint. */
interface Received {
  readonly message: IncomingMessage
  /** The exact bytes; empty for a call without a body. */
  readonly body: Uint8Array
}

/** Values of a handler, by the tags of its endpoint. */
export type Given<E extends AnyEndpoint> = Received &
  IfTagged<E, PlaneSelection, { readonly plane: Plane }> &
  IfTagged<E, IdempotencyKey, { readonly key: Redacted.Redacted }> &
  IfTagged<E, Bearer, { readonly caller: Caller }> &
  IfTagged<E, OptionalBearer, { readonly credential: Option.Option<Credential> }> &
  IfTagged<E, Signature, { readonly event: WebhookEvent }, { readonly payload: Payload<E> }>

/** The values of all endpoints together; the interpreter fills in those that the tags of one endpoint name. */
export interface AnyGiven extends Received {
  readonly payload: unknown
  readonly plane: Plane | undefined
  readonly key: Redacted.Redacted | undefined
  readonly caller: Caller | undefined
  readonly event: WebhookEvent | undefined
  readonly credential: Option.Option<Credential>
}

/** A handler without the types of its endpoint. */
export interface Handler<Name extends string = string> {
  readonly name: Name
  readonly run: (given: AnyGiven) => Effect.Effect<unknown, Failure>
  /** Type of the actor whom IAM vouched for during the call; undefined when the call vouches for none. */
  readonly actorOf: (success: unknown) => ActorType | undefined
}

/** Makes the handler of an endpoint. `actorOf` is for calls that learn their actor from the answer. */
export const handle = <E extends AnyEndpoint>(
  { name }: E,
  run: (given: Given<E>) => Effect.Effect<Success<E>, Failure>,
  actorOf: (success: Success<E>) => ActorType | undefined = () => undefined
): Handler<E["name"]> =>
  // The interpreter passes the values that the tags of this endpoint name, and the handler's own success.
  ({ name, run, actorOf }) as unknown as Handler<E["name"]>
