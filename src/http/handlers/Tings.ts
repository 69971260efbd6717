import * as Effect from "effect/Effect"
import { Notifications } from "../../services/Notifications.ts"
import { send, subscribe } from "../api/Tings.ts"
import { handle } from "./Handler.ts"

export const tingHandlers = Effect.map(Notifications, (notifications) => ({
  subscribe: handle(subscribe, ({ caller, plane }) => notifications.subscribe(plane, caller)),
  send: handle(send, ({ caller, payload, plane }) => notifications.send(plane, caller, payload))
}))
