import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import * as Effect from "effect/Effect"
import { claimsTesting, Webhooks } from "../../services/Webhooks.ts"
import { Api } from "../Api.ts"
import { receive, receiveSlashed } from "../api/Webhooks.ts"
import { CurrentBody } from "../body/BodyReader.ts"
import { noting } from "../middleware/RequestState.ts"
import { RequestGuard } from "./RequestGuard.ts"

const noteTesting = (body: Uint8Array) =>
  noting((exchange) => {
    if (!claimsTesting(body)) return
    exchange.testing = true
    exchange.plane = "testing"
  })

export const WebhooksLive = HttpApiBuilder.group(Api, "webhooks", (handlers) =>
  Effect.gen(function* () {
    const webhooks = yield* Webhooks
    const { unmetered } = yield* RequestGuard

    /** The exact bytes are what is signed, so nothing is decoded here. */
    const delivery = (
      endpoint: typeof receive | typeof receiveSlashed,
      request: HttpServerRequest.HttpServerRequest
    ) => {
      const message = NodeHttpServerRequest.toIncomingMessage(request)
      return Effect.flatMap(Effect.flatten(CurrentBody), (body) =>
        Effect.zipRight(
          noteTesting(body),
          unmetered(endpoint, webhooks.receive({ rawHeaders: message.rawHeaders, body }))
        )
      )
    }

    return handlers
      .handleRaw("receive", ({ request }) => delivery(receive, request))
      .handleRaw("receiveSlashed", ({ request }) => delivery(receiveSlashed, request))
  })
)
