import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import { productionId } from "../../services/Plane.ts"
import { Webhooks } from "../../services/Webhooks.ts"
import { Api } from "../Api.ts"
import { checkNesting } from "../body/RequestBody.ts"
import { CurrentExchange } from "../middleware/Exchange.ts"

export const WebhooksHandlers = HttpApiBuilder.group(Api, "webhooks", (handlers) =>
  Effect.gen(function* () {
    const webhooks = yield* Webhooks

    /**
     * The signature covers the exact bytes: nothing of them is read before it is verified. No rate limit of clients applies, because few
     * addresses send all deliveries.
     */
    const receive = Effect.gen(function* () {
      const exchange = yield* CurrentExchange
      exchange.plane = "unverified"
      const body = yield* exchange.body
      exchange.decoded = true
      exchange.committing = true
      const event = yield* webhooks.verify({ rawHeaders: exchange.message.rawHeaders, body })
      exchange.plane = event.plane._tag === "Production" ? productionId : "testing"
      yield* checkNesting(body)
      return yield* webhooks.receive(event)
    })

    return handlers.handleRaw("receive", () => receive).handleRaw("receiveSlashed", () => receive)
  })
)
