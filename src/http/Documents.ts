/** Serves the OpenAPI document and its page. Each is made at its first request: the page's script is large, and most processes serve none. */
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Effect from "effect/Effect"
import { Api } from "./Api.ts"
import { makePage, ShownOnDocs } from "./DocsPage.ts"
import { docsPath, documentPath } from "./middleware/Routes.ts"

/** `GET /openapi.json` is the contract as OpenAPI 3.1, `GET /docs` its page. Compression and validation of caches belong to the proxy. */
export const DocumentsLive = HttpApiBuilder.Router.use((router) =>
  Effect.gen(function* () {
    const shown = yield* ShownOnDocs
    const published = Effect.sync(() => OpenApi.fromApi(Api))
    // A document is made to its end, also for the callers that wait for it when the first one leaves.
    const json = yield* Effect.cached(
      Effect.map(published, (document) =>
        HttpServerResponse.unsafeJson(document, { headers: { "cache-control": "no-cache" } })
      )
    )
    const ownPage = yield* Effect.cached(
      Effect.uninterruptible(Effect.flatMap(published, (document) => makePage({ document, scalar: {} })))
    )
    yield* router.get(documentPath, json)
    yield* router.get(docsPath, shown === undefined ? ownPage : Effect.flatMap(shown, makePage))
  })
)
