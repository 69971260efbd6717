/** Serves the OpenAPI document and its page. Each is made at its first request: the page's script is large, and most processes serve none. */
import { createHash } from "node:crypto"
import { promisify } from "node:util"
import { gzip } from "node:zlib"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Effect from "effect/Effect"
import { Failure } from "../schema/Failure.ts"
import { Api } from "./Api.ts"
import { makePage, ShownOnDocs } from "./DocsPage.ts"
import { docsPath, documentPath, rootPath } from "./middleware/Routes.ts"

/** What is served, before it is compressed. */
interface Content {
  readonly content: Buffer
  readonly contentType: string
  readonly headers?: Readonly<Record<string, string>>
}

const makeDocument = ({ content, contentType, headers = {} }: Content) =>
  Effect.map(
    Effect.promise(() => promisify(gzip)(content)),
    (zipped) => {
      const tag = `"${createHash("sha256").update(content).digest("base64url").slice(0, 22)}"`
      // Weak, because the same content is sent in two codings.
      return {
        content,
        zipped,
        contentType,
        tag,
        headers: { ...headers, etag: `W/${tag}`, "cache-control": "no-cache" }
      }
    }
  )
type Document = Effect.Effect.Success<ReturnType<typeof makeDocument>>

/** Whether the list accepts the name; weight 0 refuses it (RFC 9110, 12.4.2). */
const accepts = (wanted: "gzip" | "text/html", accepted = ""): boolean =>
  accepted.split(",").some((part) => {
    const [name = "", ...parameters] = part.split(";").map((piece) => piece.trim().toLowerCase())
    return name === wanted && !parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter))
  })

/** Whether the caller's cached copy is current (RFC 9110, 13.1.2). */
const isCurrent = (tag: string, known = ""): boolean =>
  known.split(",").some((part) => part.trim() === "*" || part.trim().replace(/^W\//, "") === tag)

const respond = (
  { content, contentType, headers, tag, zipped }: Document,
  given: HttpServerRequest.HttpServerRequest["headers"]
) => {
  if (isCurrent(tag, given["if-none-match"])) return HttpServerResponse.empty({ status: 304, headers })
  return accepts("gzip", given["accept-encoding"])
    ? HttpServerResponse.uint8Array(zipped, {
        contentType,
        headers: { ...headers, "content-encoding": "gzip" }
      })
    : HttpServerResponse.uint8Array(content, { contentType, headers })
}

/**
 * `GET /openapi.json` is the contract as OpenAPI 3.1; `GET /docs`, and `/` for a browser, its page. A browser names HTML in
 * `Accept`; a program that accepts anything gets 404 at `/`.
 */
export const DocumentsLive = HttpApiBuilder.Router.use((router) =>
  Effect.gen(function* () {
    const shown = yield* ShownOnDocs
    const published = Effect.sync(() => OpenApi.fromApi(Api))
    const makeJson = Effect.map(published, (document) => ({
      content: Buffer.from(JSON.stringify(document)),
      contentType: "application/json"
    }))
    // A document is made to its end, also for the callers that wait for it when the first one leaves.
    const once = <R>(source: Effect.Effect<Content, never, R>) =>
      Effect.cached(Effect.uninterruptible(Effect.flatMap(source, makeDocument)))
    const json = yield* once(makeJson)
    const ownPage = yield* once(Effect.flatMap(published, (document) => makePage({ document, scalar: {} })))
    const page =
      shown === undefined ? ownPage : shown.pipe(Effect.flatMap(makePage), Effect.flatMap(makeDocument))
    const serve = (
      path: `/${string}`,
      document: Effect.Effect<Document, never, HttpRouter.HttpRouter.DefaultServices>,
      isWanted = (_: string | undefined) => true
    ) =>
      router.get(
        path,
        Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers }) =>
          isWanted(headers.accept)
            ? Effect.map(document, (made) => respond(made, headers))
            : Effect.fail(new Failure("not_found"))
        )
      )
    yield* serve(documentPath, json)
    yield* serve(docsPath, page)
    yield* serve(rootPath, page, (accept) => accepts("text/html", accept))
  })
)
