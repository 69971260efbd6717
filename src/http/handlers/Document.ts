/** The contract for programs and for people. Both are made when they are first asked for, and cost nothing before. */
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

// The page reads of the document what it was made to hold; its tests render every call of it.
const specOf = (document: Readonly<Record<string, unknown>>): Spec => document as unknown as Spec

const json = (): Document => ({ text: JSON.stringify(openApi()), contentType: "application/json" })

const docs = (): Document => ({
  text: page(specOf(openApi())),
  contentType: "text/html; charset=utf-8",
  headers: {
    "content-security-policy": contentSecurityPolicy,
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "x-frame-options": "DENY"
  }
})

/** Whether the list names it; with weight 0 the caller refuses it (RFC 9110, 12.4.2). */
const accepts = (wanted: "gzip" | "text/html", accepted = ""): boolean =>
  accepted.split(",").some((part) => {
    const [name = "", ...parameters] = part.split(";").map((piece) => piece.trim().toLowerCase())
    return name === wanted && !parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter))
  })

/** Whether the caller has this version already (RFC 9110, 13.1.2). */
const isKnown = (tag: string, known = ""): boolean =>
  known.split(",").some((part) => part.trim() === "*" || part.trim().replace(/^W\//, "") === tag)

const made = ({ text, contentType, headers }: Document) => {
  const plain = Buffer.from(text)
  const zipped = gzipSync(plain, { level: 9 })
  const tag = `"${createHash("sha256").update(plain).digest("base64url").slice(0, 22)}"`
  const common = {
    ...headers,
    // Weak: the same content goes out in two codings.
    etag: `W/${tag}`,
    "cache-control": "no-cache",
    "x-content-type-options": "nosniff"
  }
  return Effect.map(HttpServerRequest.HttpServerRequest, (request) => {
    if (isKnown(tag, request.headers["if-none-match"]))
      return HttpServerResponse.empty({ status: 304, headers: common })
    return accepts("gzip", request.headers["accept-encoding"])
      ? HttpServerResponse.uint8Array(zipped, {
          contentType,
          headers: { ...common, "content-encoding": "gzip" }
        })
      : HttpServerResponse.uint8Array(plain, { contentType, headers: common })
  })
}

const served = (make: () => Document) =>
  Effect.map(Effect.cached(Effect.sync(() => made(make()))), Effect.flatten)

/** A browser names HTML; a program that takes anything does not. */
const forBrowsers = <E, R>(
  document: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
): Effect.Effect<HttpServerResponse.HttpServerResponse, E, R | HttpServerRequest.HttpServerRequest> =>
  Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers }) =>
    // A defect, because the router's own signature has no room for our failures; the envelope knows it again.
    accepts("text/html", headers.accept) ? document : Effect.die(new NotFound())
  )

/** `GET /openapi.json`: the contract as OpenAPI 3.1. `GET /docs`, and `/` for a browser: the same as a page. */
export const DocumentLive: Layer.Layer<never> = HttpApiBuilder.Router.use((router) =>
  Effect.gen(function* () {
    const docsPage = yield* served(docs)
    yield* router.get(documentPath, yield* served(json))
    yield* router.get(docsPath, docsPage)
    yield* router.get(rootPath, forBrowsers(docsPage))
  })
)
