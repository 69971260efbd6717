import * as Effect from "effect/Effect"
import { Webhooks } from "../../services/Webhooks.ts"
import { receive, receiveSlashed } from "../api/Webhooks.ts"
import { handle } from "./Handler.ts"

export const webhookHandlers = Effect.map(Webhooks, (webhooks) => ({
  receive: handle(receive, ({ event }) => webhooks.receive(event)),
  receiveSlashed: handle(receiveSlashed, ({ event }) => webhooks.receive(event))
}))
