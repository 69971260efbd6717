import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import { Notifications } from "../../services/Notifications.ts"
import { Api } from "../Api.ts"
import { send, subscribe } from "../api/Tings.ts"
import { RequestGuard } from "../middleware/RequestGuard.ts"

export const TingsLive = HttpApiBuilder.group(Api, "tings", (handlers) =>
  Effect.gen(function* () {
    const notifications = yield* Notifications
    const { serveWithBearer } = yield* RequestGuard
    return handlers
      .handleRaw("subscribe", serveWithBearer(subscribe, notifications.subscribe))
      .handleRaw("send", serveWithBearer(send, notifications.send))
  })
)
