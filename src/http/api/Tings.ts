import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import { SentTing, Subscription, SubscriptionRequest, TingRequest } from "../../schema/Ting.ts"
import { bodyLimits } from "../../schema/BodyLimits.ts"
import { BodyBound, BodyOptional } from "./EndpointAnnotations.ts"
import { admission, always, body, identity, proof, sending, session, ting } from "./Failures.ts"
import { OrganisationHeaders } from "./DocumentedHeaders.ts"
import { Bearer, PlaneSelection } from "./Middleware.ts"

export const subscribe = HttpApiEndpoint.post("subscribe", "/api/v1/ting/subscription")
  .setHeaders(OrganisationHeaders)
  .setPayload(SubscriptionRequest)
  .addSuccess(Subscription)
  .addError(always)
  .addError(admission)
  .addError(body)
  .addError(identity)
  .addError(session)
  .addError(proof)
  .addError(ting)
  .middleware(PlaneSelection)
  .middleware(Bearer)
  .annotate(BodyBound, bodyLimits.small)
  .annotate(BodyOptional, true)
  .annotateContext(
    OpenApi.annotations({
      summary: "Register as a notification recipient",
      description:
        "Registers the signed-in actor for this application's tings. It re-activates a registration that the recipient revoked. The body is `{}` or empty."
    })
  )

export const send = HttpApiEndpoint.post("send", "/api/v1/tings")
  .setHeaders(OrganisationHeaders)
  .setPayload(TingRequest)
  .addSuccess(SentTing)
  .addError(always)
  .addError(admission)
  .addError(body)
  .addError(identity)
  .addError(session)
  .addError(proof)
  .addError(ting)
  .addError(sending)
  .middleware(PlaneSelection)
  .middleware(Bearer)
  .annotate(BodyBound, bodyLimits.ting)
  .annotateContext(
    OpenApi.annotations({
      summary: "Send a ting to yourself",
      description:
        "The organisation and the recipient come from the verified session. The same `key` with the same content is sent once: a retry answers with `replayed`. The outgoing ting may have at most 262,144 bytes."
    })
  )

export class TingsApi extends HttpApiGroup.make("tings")
  .add(subscribe)
  .add(send)
  .annotateContext(OpenApi.annotations({ title: "Notifications", description: "Notifications" })) {}
