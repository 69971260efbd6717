import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { Api } from "../Api.ts"
import { documentPath } from "../middleware/Routes.ts"

/** `GET /openapi.json`: the contract as OpenAPI 3.1, written out when it is first asked for. */
export const DocumentLive: Layer.Layer<never> = HttpApiBuilder.Router.use((router) =>
  Effect.cached(Effect.sync(() => JSON.stringify(OpenApi.fromApi(Api)))).pipe(
    Effect.flatMap((document) =>
      router.get(
        documentPath,
        Effect.map(document, (body) => HttpServerResponse.text(body, { contentType: "application/json" }))
      )
    )
  )
)
