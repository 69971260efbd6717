import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import { Webhooks } from "../../services/Webhooks.ts"
import { Api } from "../Api.ts"
import { receive, receiveSlashed } from "../api/Webhooks.ts"
import { RequestGuard } from "../middleware/RequestGuard.ts"

export const WebhooksLive = HttpApiBuilder.group(Api, "webhooks", (handlers) =>
  Effect.gen(function* () {
    const webhooks = yield* Webhooks
    const { serveWebhook } = yield* RequestGuard
    const receiveDelivery = (rawHeaders: ReadonlyArray<string>, body: Uint8Array) =>
      webhooks.receive({ rawHeaders, body })
    return handlers
      .handleRaw("receive", serveWebhook(receive, receiveDelivery))
      .handleRaw("receiveSlashed", serveWebhook(receiveSlashed, receiveDelivery))
  })
)
