import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import { Notifications } from "../../services/Notifications.ts"
import { Api } from "../Api.ts"
import { Calls } from "../middleware/Calls.ts"

export const TingsHandlers = HttpApiBuilder.group(Api, "tings", (handlers) =>
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
