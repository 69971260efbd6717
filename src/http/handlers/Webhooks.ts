import * as Effect from "effect/Effect"
import { Webhooks } from "../../services/Webhooks.ts"
import { receive, receiveSlashed } from "../api/Webhooks.ts"
import { type Given, handle } from "./Handler.ts"

export const webhookHandlers = Effect.map(Webhooks, (webhooks) => {
  const receiveDelivery = ({ body, message }: Given<typeof receive>) =>
    webhooks.receive({ rawHeaders: message.rawHeaders, body })
  return {
    receive: handle(receive, receiveDelivery),
    receiveSlashed: handle(receiveSlashed, receiveDelivery)
  }
})
