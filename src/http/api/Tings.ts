import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Effect from "effect/Effect"
import { bodyLimits } from "../../schema/BodyLimits.ts"
import { SentTing, Subscription, SubscriptionRequest, TingRequest } from "../../schema/Ting.ts"
import { Notifications } from "../../services/usecases/Notifications.ts"
import { Calls } from "../middleware/Calls.ts"
import { Bearer, PlaneSelection } from "../middleware/SentHeaders.ts"
import { failures, Traits, withBody } from "./Endpoint.ts"

/** Refusals of the notification service, under its own codes (notification-service.md 8). */
const refused = [
  ...["dependency_misconfigured", "permission_denied", "test_context_mismatch", "temporarily_rate_limited"]
] as const

export const subscribe = HttpApiEndpoint.post("subscribe", "/api/v1/ting/subscription")
  .setPayload(SubscriptionRequest)
  .addSuccess(Subscription)
  .addError(failures(...withBody, ...refused))
  .middleware(PlaneSelection)
  .middleware(Bearer)
  .annotate(Traits, { bodyBound: bodyLimits.small, bodyOptional: true })
  .annotate(OpenApi.Summary, "Register as a notification recipient")
  .annotate(
    OpenApi.Description,
    "Registers the signed-in actor for this application's tings. It re-activates a registration that the recipient revoked. The body is `{}` or empty."
  )

export const send = HttpApiEndpoint.post("send", "/api/v1/tings")
  .setPayload(TingRequest)
  .addSuccess(SentTing)
  .addError(failures(...withBody, ...refused, "recipient_not_registered", "required_delivery_not_enabled"))
  .addError(failures("not_found", "idempotency_conflict"))
  .middleware(PlaneSelection)
  .middleware(Bearer)
  .annotate(Traits, { bodyBound: bodyLimits.ting })
  .annotate(OpenApi.Summary, "Send a ting to yourself")
  .annotate(
    OpenApi.Description,
    "The organisation and the recipient come from the verified session. The same `key` with the same content is sent once: a retry answers with `replayed`. The outgoing ting may have at most 262,144 bytes."
  )

export class TingsApi extends HttpApiGroup.make("tings")
  .add(subscribe)
  .add(send)
  .annotate(OpenApi.Title, "Notifications")
  .annotate(OpenApi.Description, "Notifications") {}

export const TingsLive = HttpApiBuilder.group(HttpApi.make("music").add(TingsApi), "tings", (handlers) =>
  Effect.gen(function* () {
    const { signedIn } = yield* Calls
    const notifications = yield* Notifications
    return handlers
      .handle("subscribe", () => signedIn(notifications.subscribe))
      .handle("send", ({ payload }) =>
        signedIn((plane, caller) => notifications.send(plane, caller, payload))
      )
  })
)
