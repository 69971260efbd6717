/** The page of the OpenAPI document, by the library's Scalar, under a policy that lets its own scripts alone run. */
import { createHash } from "node:crypto"
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Record from "effect/Record"

type Calls = Readonly<Record<string, { readonly parameters?: ReadonlyArray<object> }>>

/** What the page shows: a document of OpenAPI, and further settings of the page. */
export interface ShownDocument {
  readonly document: { readonly paths: Readonly<Record<string, Calls>> }
  readonly scalar: Readonly<Record<string, unknown>>
}

/** What a host shows on the page instead of the contract, made anew at each request: a sandbox, the contract with live values. */
export class ShownOnDocs extends Context.Reference<ShownOnDocs>()("music/http/ShownOnDocs", {
  defaultValue: (): Effect.Effect<ShownDocument> | undefined => undefined
}) {}

/** No font, proxy, statistics or link of elsewhere; colours that can be read. The library's type has a part of Scalar's settings only. */
const settings = {
  withDefaultFonts: false,
  telemetry: false,
  showToolbar: "never",
  hideClientButton: true,
  hideModels: true,
  // Its text names the published one.
  documentDownloadType: "none",
  defaultOpenAllTags: true,
  customCss: `.light-mode { --scalar-color-2: #555; --scalar-color-3: #666; --scalar-color-green: #0a6b3c; --scalar-color-blue: #0759a6; --scalar-color-orange: #a34700; --scalar-color-red: #b3261e; --scalar-color-purple: #6b2fb3; --scalar-color-yellow: #7a5c00 }
.tag-section-container { overflow-x: clip }
.dark-mode { --scalar-color-2: #b8b8b8; --scalar-color-3: #a6a6a6 }`,
  defaultHttpClient: { targetKey: "shell", clientKey: "curl" }
}

/** The digests of the scripts; they make styles, and a digest of the document by WebAssembly, and reach this service alone. */
const policyOf = (page: string): string => {
  const digests = [...page.matchAll(/<script>([\s\S]*?)<\/script>/g)].map(
    ([, script = ""]) => `'sha256-${createHash("sha256").update(script).digest("base64")}'`
  )
  return `default-src 'none'; script-src 'wasm-unsafe-eval' ${digests.join(" ")}; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'`
}

/** Without the optional headers that calls share, which the text describes once: the page would put their examples into each sample. */
const withOwnParameters = (calls: Calls) =>
  Record.map(calls, ({ parameters = [], ...call }) => ({
    ...call,
    parameters: parameters.filter((parameter) => "name" in parameter && parameter.name !== "Origin")
  }))

export const makePage = ({ document, scalar }: ShownDocument) =>
  Effect.gen(function* () {
    const { layer } = yield* Effect.promise(() => import("@effect/platform/HttpApiScalar"))
    // The library reads the document of an API, and this one is made already.
    const paths = Record.map(document.paths, withOwnParameters)
    const api = HttpApi.make("docs").annotate(OpenApi.Transform, () => ({ ...document, paths }))
    const context = yield* layer({ path: "/", scalar: { ...settings, ...scalar } }).pipe(
      Layer.provideMerge(HttpApiBuilder.Router.Live),
      Layer.provide(HttpApiBuilder.api(api)),
      Layer.build
    )
    const router = yield* Context.get(context, HttpApiBuilder.Router).router
    const request = HttpServerRequest.fromWeb(new Request("http://localhost/"))
    const response = yield* Effect.provideService(router, HttpServerRequest.HttpServerRequest, request)
    const html = yield* Effect.promise(() => HttpServerResponse.toWeb(response).text())
    // The library does not name the language of its page.
    const page = html.replace("<html>", '<html lang="en">').trimStart()
    return HttpServerResponse.text(page, {
      contentType: "text/html; charset=utf-8",
      headers: {
        "cache-control": "no-cache",
        "content-security-policy": policyOf(page),
        "cross-origin-opener-policy": "same-origin"
      }
    })
  }).pipe(Effect.scoped, Effect.orDie)
