/** The OpenAPI document and its page. Each is rendered at its first request. */
import { createHash } from "node:crypto"
import { gzipSync } from "node:zlib"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { NotFound } from "../../schema/Failure.ts"
import { openApi } from "../openapi/OpenApiDocument.ts"
import { contentSecurityPolicy, page } from "../docs/Page.ts"
import type { Spec } from "../docs/Spec.ts"
import { docsPath, documentPath, rootPath } from "../middleware/Routes.ts"

interface Document {
  readonly text: string
  readonly contentType: string
  readonly headers?: Readonly<Record<string, string>>
}

// `Spec` describes the parts of our own document that the page reads; a test renders every call.
const toSpec = (document: Readonly<Record<string, unknown>>): Spec => document as unknown as Spec

const renderJson = (): Document => ({ text: JSON.stringify(openApi()), contentType: "application/json" })

const renderPage = (): Document => ({
  text: page(toSpec(openApi())),
  contentType: "text/html; charset=utf-8",
  headers: {
    "content-security-policy": contentSecurityPolicy,
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "x-frame-options": "DENY"
  }
})

/** Whether the list accepts the name; weight 0 refuses it (RFC 9110, 12.4.2). */
const accepts = (wanted: "gzip" | "text/html", accepted = ""): boolean =>
  accepted.split(",").some((part) => {
    const [name = "", ...parameters] = part.split(";").map((piece) => piece.trim().toLowerCase())
    return name === wanted && !parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter))
  })

/** Whether the caller's cached copy is current (RFC 9110, 13.1.2). */
const isCurrent = (tag: string, known = ""): boolean =>
  known.split(",").some((part) => part.trim() === "*" || part.trim().replace(/^W\//, "") === tag)

const respondWith = ({ text, contentType, headers }: Document) => {
  const plain = Buffer.from(text)
  const zipped = gzipSync(plain, { level: 9 })
  const tag = `"${createHash("sha256").update(plain).digest("base64url").slice(0, 22)}"`
  const common = {
    ...headers,
    // Weak, because the same content is sent in two codings.
    etag: `W/${tag}`,
    "cache-control": "no-cache",
    "x-content-type-options": "nosniff"
  }
  return Effect.map(HttpServerRequest.HttpServerRequest, (request) => {
    if (isCurrent(tag, request.headers["if-none-match"]))
      return HttpServerResponse.empty({ status: 304, headers: common })
    return accepts("gzip", request.headers["accept-encoding"])
      ? HttpServerResponse.uint8Array(zipped, {
          contentType,
          headers: { ...common, "content-encoding": "gzip" }
        })
      : HttpServerResponse.uint8Array(plain, { contentType, headers: common })
  })
}

/** Responds with a document that is rendered once. */
const serveOnceRendered = (render: () => Document) =>
  Effect.map(Effect.cached(Effect.sync(() => respondWith(render()))), Effect.flatten)

/** For browsers only, which name HTML in `Accept`; programs that accept anything get 404. */
const serveBrowsers = <E, R>(
  document: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
): Effect.Effect<
  HttpServerResponse.HttpServerResponse,
  E | NotFound,
  R | HttpServerRequest.HttpServerRequest
> =>
  Effect.flatMap(
    HttpServerRequest.HttpServerRequest,
    ({ headers }): Effect.Effect<HttpServerResponse.HttpServerResponse, E | NotFound, R> =>
      accepts("text/html", headers.accept) ? document : Effect.fail(new NotFound())
  )

/** `GET /openapi.json` is the contract as OpenAPI 3.1; `GET /docs`, and `/` for a browser, its page. */
export const DocumentLive: Layer.Layer<never> = HttpApiBuilder.Router.use((router) =>
  Effect.gen(function* () {
    const docsPage = yield* serveOnceRendered(renderPage)
    yield* router.get(documentPath, yield* serveOnceRendered(renderJson))
    yield* router.get(docsPath, docsPage)
    yield* router.get(rootPath, serveBrowsers(docsPage))
  })
)
