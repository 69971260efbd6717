import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { bodyLimits } from "../../schema/BodyLimits.ts"
import { WebhookDelivery, WebhookReceipt } from "../../schema/System.ts"
import { productionId } from "../../services/Plane.ts"
import { Webhooks } from "../../services/usecases/Webhooks.ts"
import { checkNesting } from "../body/RequestBody.ts"
import { CurrentExchange } from "../middleware/Exchange.ts"
import { webhookGuide } from "../openapi/Guide.ts"
import { failures, Traits, withBody } from "./Endpoint.ts"

const delivery = <const Name extends string>(name: Name, path: `/${string}`) =>
  HttpApiEndpoint.post(name, path)
    .setPayload(WebhookDelivery)
    .addSuccess(WebhookReceipt)
    .addError(failures(...withBody, "webhook_signature_invalid", "plane_mismatch", "dependency_unavailable"))
    .annotate(Traits, { bodyBound: bodyLimits.webhook })

export const receive = delivery("receive", "/webhook")
  .annotate(OpenApi.Summary, "Receive a delivery of the identity service")
  .annotate(
    OpenApi.Description,
    "Verified over the exact bytes, committed, then acknowledged. A duplicate event id is acknowledged without effect. Also served as `/webhook/`."
  )

/** The same call at the other path; the document shows one of them. */
const receiveSlashed = delivery("receiveSlashed", "/webhook/").annotate(OpenApi.Exclude, true)

export class WebhooksApi extends HttpApiGroup.make("webhooks")
  .add(receive)
  .add(receiveSlashed)
  .annotate(OpenApi.Title, "Webhooks")
  .annotate(OpenApi.Description, webhookGuide) {}

export const WebhooksLive = HttpApiBuilder.group(
  HttpApi.make("music").add(WebhooksApi),
  "webhooks",
  (handlers) =>
    Effect.map(Webhooks, (webhooks) => {
      /**
       * The signature covers the exact bytes: nothing of them is read before it is verified. No rate limit of clients applies, because
       * few addresses send all deliveries.
       */
      const receiveRaw = Effect.gen(function* () {
        const exchange = yield* CurrentExchange
        exchange.plane = "unverified"
        const body = yield* exchange.body
        exchange.committing = true
        const event = yield* webhooks.verify({ rawHeaders: exchange.message.rawHeaders, body })
        exchange.plane = Option.isNone(event.testing) ? productionId : "testing"
        yield* checkNesting(event.data)
        return yield* webhooks.receive(event)
      })
      return handlers.handleRaw("receive", () => receiveRaw).handleRaw("receiveSlashed", () => receiveRaw)
    })
)
