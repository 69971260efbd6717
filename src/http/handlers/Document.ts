import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { Api } from "../Api.ts"
import { documentPath } from "../middleware/Routes.ts"

/** `GET /openapi.json`: the contract as OpenAPI 3.1. */
export const DocumentLive: Layer.Layer<never> = HttpApiBuilder.Router.use((router) =>
  Effect.suspend(() => {
    const body = JSON.stringify(OpenApi.fromApi(Api))
    return router.get(
      documentPath,
      Effect.succeed(HttpServerResponse.text(body, { contentType: "application/json" }))
    )
  })
)
