import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import { bodyLimits } from "../../schema/BodyLimits.ts"
import { WebhookDelivery, WebhookReceipt } from "../../schema/Webhook.ts"
import { webhookGuide } from "../openapi/Guide.ts"
import { BodyBound } from "./EndpointAnnotations.ts"
import { admission, always, body, failures } from "./Failures.ts"

const delivery = <const Name extends string>(name: Name, path: `/${string}`) =>
  HttpApiEndpoint.post(name, path)
    .setPayload(WebhookDelivery)
    .addSuccess(WebhookReceipt)
    .addError(always)
    .addError(admission)
    .addError(body)
    .addError(failures("webhook_signature_invalid", "plane_mismatch", "dependency_unavailable"))
    .annotate(BodyBound, bodyLimits.webhook)

export const receive = delivery("receive", "/webhook").annotateContext(
  OpenApi.annotations({
    summary: "Receive a delivery of the identity service",
    description:
      "Verified over the exact bytes, committed, then acknowledged. A duplicate event id is acknowledged without effect. Also served as `/webhook/`."
  })
)

/** The same call at the other path; the document shows one of them. */
export const receiveSlashed = delivery("receiveSlashed", "/webhook/").annotateContext(
  OpenApi.annotations({ exclude: true })
)

export class WebhooksApi extends HttpApiGroup.make("webhooks")
  .add(receive)
  .add(receiveSlashed)
  .annotateContext(OpenApi.annotations({ title: "Webhooks", description: webhookGuide })) {}
