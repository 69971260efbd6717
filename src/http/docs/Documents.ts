/** The OpenAPI document and its page. Each is rendered at its first request. */
import { createHash } from "node:crypto"
import { gzipSync } from "node:zlib"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as Headers from "@effect/platform/Headers"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import { Failure } from "../../schema/Failure.ts"
import { openApi } from "../openapi/OpenApiDocument.ts"
import { AddedToDocs, type DocsAddition } from "./DocsAddition.ts"
import { contentSecurityPolicy, page } from "./Page.ts"
import type { Spec } from "./Spec.ts"
import { docsPath, documentPath, rootPath } from "../middleware/Routes.ts"

interface Document {
  readonly text: string
  readonly contentType: string
  readonly headers?: Readonly<Record<string, string>>
}

// `Spec` describes the parts of our own document that the page reads; a test renders every call.
const toSpec = (document: Readonly<Record<string, unknown>>): Spec => document as unknown as Spec

const renderJson = (): Document => ({ text: JSON.stringify(openApi()), contentType: "application/json" })

const renderPage = (addition: DocsAddition | undefined) => (): Document => ({
  text: page(toSpec(openApi()), addition),
  contentType: "text/html; charset=utf-8",
  headers: {
    "content-security-policy": contentSecurityPolicy(addition),
    "cross-origin-opener-policy": "same-origin"
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

const makeResponder = ({ text, contentType, headers }: Document) => {
  const plain = Buffer.from(text)
  const zipped = gzipSync(plain, { level: 9 })
  const tag = `"${createHash("sha256").update(plain).digest("base64url").slice(0, 22)}"`
  const common = {
    ...headers,
    // Weak, because the same content is sent in two codings.
    etag: `W/${tag}`,
    "cache-control": "no-cache"
  }
  return (given: Headers.Headers) => {
    if (isCurrent(tag, given["if-none-match"]))
      return HttpServerResponse.empty({ status: 304, headers: common })
    const zips = accepts("gzip", given["accept-encoding"])
    const coded = zips ? { ...common, "content-encoding": "gzip" } : common
    return HttpServerResponse.uint8Array(zips ? zipped : plain, { contentType, headers: coded })
  }
}

/** Renders a document at its first request. */
const renderOnce = (render: () => Document) => {
  let respond: ReturnType<typeof makeResponder> | undefined
  return (given: Headers.Headers) => {
    respond ??= makeResponder(render())
    return respond(given)
  }
}

/**
 * `GET /openapi.json` is the contract as OpenAPI 3.1; `GET /docs`, and `/` for a browser, its page. A browser names HTML in
 * `Accept`; a program that accepts anything gets 404 at `/`.
 */
export const DocumentsLive = HttpApiBuilder.Router.use((router) =>
  Effect.gen(function* () {
    const respondWithJson = renderOnce(renderJson)
    const respondWithPage = renderOnce(renderPage(yield* AddedToDocs))
    const serve = (
      path: `/${string}`,
      respond: typeof respondWithJson,
      isWanted = (_: Headers.Headers) => true
    ) =>
      router.get(
        path,
        Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers }) =>
          isWanted(headers) ? Effect.sync(() => respond(headers)) : Effect.fail(new Failure("not_found"))
        )
      )
    yield* serve(documentPath, respondWithJson)
    yield* serve(docsPath, respondWithPage)
    yield* serve(rootPath, respondWithPage, ({ accept }) => accepts("text/html", accept))
  })
)
