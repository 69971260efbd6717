/** The handlers of all endpoints; an endpoint without one does not compile. */
import type * as HttpApi from "@effect/platform/HttpApi"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as Effect from "effect/Effect"
import type { Api } from "../Api.ts"
import { authHandlers } from "./Auth.ts"
import { descriptorHandlers } from "./Descriptors.ts"
import type { Handler } from "./Handler.ts"
import { reportHandlers } from "./Reports.ts"
import { systemHandlers } from "./System.ts"
import { telemetryHandlers } from "./Telemetry.ts"
import { tingHandlers } from "./Tings.ts"
import { webhookHandlers } from "./Webhooks.ts"

type GroupsOf<A> = A extends HttpApi.HttpApi<infer _Id, infer Groups, infer _E, infer _R> ? Groups : never
type EndpointName = HttpApiGroup.HttpApiGroup.Endpoints<GroupsOf<typeof Api>>["name"]

type Handlers = { readonly [Name in EndpointName]: Handler<Name> }

export const makeHandlers = Effect.gen(function* () {
  const handlers: Handlers = {
    ...(yield* systemHandlers),
    ...(yield* descriptorHandlers),
    ...(yield* authHandlers),
    ...(yield* tingHandlers),
    ...(yield* reportHandlers),
    ...(yield* telemetryHandlers),
    ...(yield* webhookHandlers)
  }
  return new Map<string, Handler>(Object.entries(handlers))
})
