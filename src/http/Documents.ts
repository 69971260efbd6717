/** Serves the OpenAPI document and its page. Each is made at its first request: the page's script is large, and most processes serve none. */
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Effect from "effect/Effect"
import { Failure } from "../schema/Failure.ts"
import { Api } from "./Api.ts"
import { makePage, ShownOnDocs } from "./DocsPage.ts"
import { docsPath, documentPath, rootPath } from "./middleware/Routes.ts"

/** Whether `Accept` names HTML; weight 0 refuses it (RFC 9110, 12.4.2). */
const acceptsHtml = (accept = ""): boolean =>
  accept.split(",").some((part) => {
    const [name = "", ...parameters] = part.split(";").map((piece) => piece.trim().toLowerCase())
    return name === "text/html" && !parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter))
  })

/**
 * `GET /openapi.json` is the contract as OpenAPI 3.1; `GET /docs`, and `/` for a browser, its page. A browser names HTML in
 * `Accept`; a program that accepts anything gets 404 at `/`. Compression and validation of caches belong to the proxy.
 */
export const DocumentsLive = HttpApiBuilder.Router.use((router) =>
  Effect.gen(function* () {
    const shown = yield* ShownOnDocs
    const published = Effect.sync(() => OpenApi.fromApi(Api))
    // A document is made to its end, also for the callers that wait for it when the first one leaves.
    const json = yield* Effect.cached(
      Effect.map(published, (document) => ({
        content: Buffer.from(JSON.stringify(document)),
        contentType: "application/json",
        headers: {}
      }))
    )
    const ownPage = yield* Effect.cached(
      Effect.uninterruptible(Effect.flatMap(published, (document) => makePage({ document, scalar: {} })))
    )
    const page = shown === undefined ? ownPage : Effect.flatMap(shown, makePage)
    const serve = (document: typeof json | typeof page) =>
      Effect.map(document, ({ content, contentType, headers }) =>
        HttpServerResponse.uint8Array(content, {
          contentType,
          headers: { ...headers, "cache-control": "no-cache" }
        })
      )
    yield* router.get(documentPath, serve(json))
    yield* router.get(docsPath, serve(page))
    const root = Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers }) =>
      acceptsHtml(headers.accept) ? serve(page) : Effect.fail(new Failure("not_found"))
    )
    yield* router.get(rootPath, root)
  })
)
