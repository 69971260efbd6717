/** The OpenAPI document and its page. Each is made at its first request: the page's script is large, and most processes serve none. */
import { createHash } from "node:crypto"
import { promisify } from "node:util"
import { gzip } from "node:zlib"
import type * as Headers from "@effect/platform/Headers"
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type { ScalarConfig } from "@effect/platform/HttpApiScalar"
import type * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Record from "effect/Record"
import { Failure } from "../schema/Failure.ts"
import { Api } from "./Api.ts"
import { docsPath, documentPath, rootPath } from "./middleware/Routes.ts"

type Paths = Readonly<
  Record<string, Readonly<Record<string, { readonly parameters?: ReadonlyArray<object> }>>>
>

/** What the page shows: a document of OpenAPI, and further settings of the page. */
export interface ShownDocument {
  readonly document: { readonly paths: Paths }
  readonly scalar: Readonly<Record<string, unknown>>
}

/** What a host shows on the page instead of the contract, made anew at each request: a sandbox, the contract with live values. */
export class ShownOnDocs extends Context.Reference<ShownOnDocs>()("music/http/ShownOnDocs", {
  defaultValue: (): Effect.Effect<ShownDocument> | undefined => undefined
}) {}

/** No font, proxy, statistics or link of elsewhere. The library's type has a part of Scalar's settings only. */
const scalar = {
  withDefaultFonts: false,
  telemetry: false,
  showToolbar: "never",
  hideClientButton: true,
  hideModels: true,
  // Its text names the published one.
  documentDownloadType: "none",
  defaultOpenAllTags: true,
  // The library's lighter colours are hard to read, and its sections are wider than a narrow screen.
  customCss: [
    ".light-mode { --scalar-color-2: #555; --scalar-color-3: #666; --scalar-color-green: #0a6b3c; --scalar-color-blue: #0759a6; --scalar-color-orange: #a34700; --scalar-color-red: #b3261e; --scalar-color-purple: #6b2fb3; --scalar-color-yellow: #7a5c00 }",
    ".tag-section-container { overflow-x: clip }",
    ".dark-mode { --scalar-color-2: #b8b8b8; --scalar-color-3: #a6a6a6 }"
  ].join("\n"),
  defaultHttpClient: { targetKey: "shell", clientKey: "curl" }
}

interface Document {
  readonly contentType: string
  readonly plain: Uint8Array
  readonly zipped: Uint8Array
  readonly tag: string
  readonly headers: Readonly<Record<string, string>>
}

const makeDocument = (plain: Buffer, contentType: string, headers: Document["headers"] = {}) =>
  Effect.promise(async (): Promise<Document> => {
    const tag = `"${createHash("sha256").update(plain).digest("base64url").slice(0, 22)}"`
    // Weak, because the same content is sent in two codings.
    const common = { ...headers, etag: `W/${tag}`, "cache-control": "no-cache" }
    return { contentType, plain, zipped: await promisify(gzip)(plain), tag, headers: common }
  })

const makeJson = Effect.suspend(() =>
  makeDocument(Buffer.from(JSON.stringify(OpenApi.fromApi(Api))), "application/json")
)

const digestsOf = (page: Buffer): ReadonlyArray<string> => {
  const [begin, end] = ["<script>", "</script>"]
  const digests: Array<string> = []
  for (let at = page.indexOf(begin); at !== -1; at = page.indexOf(begin, at)) {
    const start = at + begin.length
    at = page.indexOf(end, start)
    digests.push(createHash("sha256").update(page.subarray(start, at)).digest("base64"))
  }
  return digests
}

/**
 * The library's own scripts alone run, by their digests, and reach this service alone. They make styles, and a digest of the document by
 * WebAssembly.
 */
const policyOf = (page: Buffer): string =>
  [
    "default-src 'none'",
    `script-src 'wasm-unsafe-eval' ${digestsOf(page)
      .map((digest) => `'sha256-${digest}'`)
      .join(" ")}`,
    "style-src 'unsafe-inline'",
    "connect-src 'self'",
    "img-src data:",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'none'"
  ].join("; ")

/**
 * The document without the optional headers that calls share, which its text describes once: the page would repeat them in each call, and
 * put their examples into each of its samples.
 */
const withOwnParameters = ({ paths, ...document }: { readonly paths: Paths }) => ({
  ...document,
  paths: Record.map(paths, (calls) =>
    Record.map(calls, ({ parameters = [], ...call }) => ({
      ...call,
      parameters: parameters.filter((parameter) => "name" in parameter && parameter.name !== "Origin")
    }))
  )
})

const makePage = ({ document, scalar: more }: ShownDocument) =>
  Effect.gen(function* () {
    const { layer } = yield* Effect.promise(() => import("@effect/platform/HttpApiScalar"))
    // The library reads the document of an API, and this one is made already.
    const api = HttpApi.make("docs").annotate(OpenApi.Transform, () => withOwnParameters(document))
    const settings: ScalarConfig = { ...scalar, ...more }
    const context = yield* layer({ path: docsPath, scalar: settings }).pipe(
      Layer.provideMerge(HttpApiBuilder.Router.Live),
      Layer.provide(HttpApiBuilder.api(api)),
      Layer.build
    )
    const router = yield* Context.get(context, HttpApiBuilder.Router).router
    const request = HttpServerRequest.fromWeb(new Request(`http://localhost${docsPath}`))
    const response = yield* Effect.provideService(router, HttpServerRequest.HttpServerRequest, request)
    const html = Buffer.from(yield* Effect.promise(() => HttpServerResponse.toWeb(response).arrayBuffer()))
    // The library does not name the language of its page. The page stays bytes: as text it is twice as large.
    const tag = "<html>"
    const page = Buffer.concat([
      Buffer.from('<!doctype html>\n<html lang="en">'),
      html.subarray(html.indexOf(tag) + tag.length)
    ])
    return yield* makeDocument(page, "text/html; charset=utf-8", {
      "content-security-policy": policyOf(page),
      "cross-origin-opener-policy": "same-origin"
    })
  }).pipe(Effect.scoped, Effect.orDie)

const makeOwnPage = Effect.suspend(() => makePage({ document: OpenApi.fromApi(Api), scalar: {} }))

/** Whether the list accepts the name; weight 0 refuses it (RFC 9110, 12.4.2). */
const accepts = (wanted: "gzip" | "text/html", accepted = ""): boolean =>
  accepted.split(",").some((part) => {
    const [name = "", ...parameters] = part.split(";").map((piece) => piece.trim().toLowerCase())
    return name === wanted && !parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter))
  })

/** Whether the caller's cached copy is current (RFC 9110, 13.1.2). */
const isCurrent = (tag: string, known = ""): boolean =>
  known.split(",").some((part) => part.trim() === "*" || part.trim().replace(/^W\//, "") === tag)

const respond = ({ contentType, headers, plain, tag, zipped }: Document, given: Headers.Headers) => {
  if (isCurrent(tag, given["if-none-match"])) return HttpServerResponse.empty({ status: 304, headers })
  return accepts("gzip", given["accept-encoding"])
    ? HttpServerResponse.uint8Array(zipped, {
        contentType,
        headers: { ...headers, "content-encoding": "gzip" }
      })
    : HttpServerResponse.uint8Array(plain, { contentType, headers })
}

/**
 * `GET /openapi.json` is the contract as OpenAPI 3.1; `GET /docs`, and `/` for a browser, its page. A browser names HTML in
 * `Accept`; a program that accepts anything gets 404 at `/`.
 */
export const DocumentsLive = HttpApiBuilder.Router.use((router) =>
  Effect.gen(function* () {
    const shown = yield* ShownOnDocs
    // A document is made to its end, also for the callers that wait for it when the first one leaves.
    const json = yield* Effect.cached(Effect.uninterruptible(makeJson))
    const ownPage = yield* Effect.cached(Effect.uninterruptible(makeOwnPage))
    const page = shown === undefined ? ownPage : Effect.flatMap(shown, makePage)
    const serve = (
      path: `/${string}`,
      document: Effect.Effect<Document, never, HttpRouter.HttpRouter.DefaultServices>,
      isWanted = (_: Headers.Headers) => true
    ) =>
      router.get(
        path,
        Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers }) =>
          isWanted(headers)
            ? Effect.map(document, (made) => respond(made, headers))
            : Effect.fail(new Failure("not_found"))
        )
      )
    yield* serve(documentPath, json)
    yield* serve(docsPath, page)
    yield* serve(rootPath, page, ({ accept }) => accepts("text/html", accept))
  })
)
