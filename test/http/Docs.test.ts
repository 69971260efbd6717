import { createHash } from "node:crypto"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { openApi } from "../../src/http/openapi/OpenApiDocument.ts"
import { script, style } from "../../src/http/docs/Assets.ts"
import { Html, html, prose } from "../../src/http/docs/Html.ts"
import { contentSecurityPolicy, page } from "../../src/http/docs/Page.ts"
import { samplesOf } from "../../src/http/docs/Samples.ts"
import { callsOf, failuresOf, type Spec } from "../../src/http/docs/Spec.ts"
import { type FailureCode, failureTable } from "../../src/schema/Failure.ts"
import { sharedBackend, call, errorOf, testingSecret } from "./support.ts"

const spec = openApi() as unknown as Spec
const text = page(spec, undefined)
const policy = contentSecurityPolicy(undefined)
const calls = callsOf(spec)

const all = (pattern: RegExp, within = text): ReadonlyArray<string> =>
  [...within.matchAll(pattern)].map(([whole, part]) => part ?? whole)

/** The text of an element that occurs once. */
const inner = (tag: string): string => {
  const parts = text.split(new RegExp(`</?${tag}>`))
  expect([tag, parts.length]).toEqual([tag, 3])
  return parts[1] ?? ""
}

const sectionOf = (id: string): string => {
  const from = text.indexOf(`<section id="${id}"`)
  return text.slice(from, text.indexOf("</section>", from))
}

const escaped = (given: string): string => html`${prose(given)}`.text

describe("The page of the API", () => {
  it.scoped(
    "is served like any document: HEAD, OPTIONS, 405, 404, no plane, no event, one log line",
    function* () {
      const server = yield* sharedBackend
      const answer = yield* call(server, {
        path: "/docs",
        headers: { "x-testing-environment-key": testingSecret }
      })
      expect([answer.status, answer.text]).toEqual([200, text])
      expect(answer.headers).toMatchObject({
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": policy,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "x-frame-options": "DENY",
        "cache-control": "no-cache",
        "x-request-id": expect.stringMatching(/^req_/)
      })
      const head = yield* call(server, { method: "HEAD", path: "/docs" })
      expect([head.status, head.text, head.headers["content-length"]]).toEqual([
        200,
        "",
        String(Buffer.byteLength(text))
      ])
      const options = yield* call(server, { method: "OPTIONS", path: "/docs" })
      expect([options.status, options.headers.allow]).toEqual([204, "GET, HEAD, OPTIONS"])
      expect((yield* call(server, { method: "POST", path: "/docs" })).status).toBe(405)
      for (const path of ["/docs/", "/Docs", "/docs/index.html"]) {
        expect(errorOf(yield* call(server, { path })).code).toBe("not_found")
      }
      const recorded = server.events.filter(({ fields }) => fields.route === "/docs" && fields.status === 200)
      expect([server.reached, recorded]).toEqual([[], []])
      const [line] = server.lines.filter(({ fields }) => fields.route === "/docs")
      expect(line?.fields).toMatchObject({ method: "GET", status: 200, plane: "production" })
    }
  )

  const asBrowser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
  // Excludes headers that differ between requests.
  const without = (names: ReadonlyArray<string>, headers: object) =>
    Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name)))

  it.scoped("is served at / to a browser, with the same headers", function* () {
    const server = yield* sharedBackend
    for (const accept of [asBrowser, "text/html", "application/json, TEXT/HTML ; q=0.1"]) {
      for (const method of ["GET", "HEAD"]) {
        const [root, docs] = yield* Effect.forEach(["/", "/docs"], (path) =>
          call(server, { method, path, headers: { accept } })
        )
        expect([accept, method, root?.status, root?.text]).toEqual([accept, method, 200, docs?.text])
        const own = ["x-request-id", "date", "vary"]
        expect(without(own, root?.headers ?? {})).toEqual(without(own, docs?.headers ?? {}))
        expect([root?.headers.vary, docs?.headers.vary]).toEqual([
          "Accept, Accept-Encoding",
          "Accept-Encoding"
        ])
      }
    }
    const tag = (yield* call(server, { path: "/", headers: { accept: asBrowser } })).headers.etag
    const known = yield* call(server, { path: "/", headers: { accept: asBrowser, "if-none-match": tag } })
    expect([known.status, known.headers.vary]).toEqual([304, "Accept, Accept-Encoding"])
  })

  it.scoped("is 404 at / for a program; caches keep the two answers apart", function* () {
    const server = yield* sharedBackend
    for (const accept of [
      undefined,
      "",
      "*/*",
      "application/json",
      "text/plain",
      "text/html;q=0",
      "text/htmlx"
    ]) {
      for (const method of ["GET", "HEAD"]) {
        const headers = accept === undefined ? {} : { accept }
        const answer = yield* call(server, { method, path: "/", headers })
        expect([accept, answer.status, answer.headers.vary]).toEqual([accept, 404, "Accept, Accept-Encoding"])
        expect(answer.headers["x-request-id"]).toMatch(/^req_/)
        if (method === "GET") expect(errorOf(answer).code).toBe("not_found")
      }
    }
    const posted = yield* call(server, { method: "POST", path: "/" })
    expect([posted.status, posted.headers.allow]).toEqual([405, "GET, HEAD, OPTIONS"])
    const options = yield* call(server, { method: "OPTIONS", path: "/" })
    expect([options.status, options.headers.allow]).toEqual([204, "GET, HEAD, OPTIONS"])
  })

  it("contains only the script and the style that its policy names by digest", () => {
    const digest = (given: string) => `'sha256-${createHash("sha256").update(given).digest("base64")}'`
    expect([inner("script"), inner("style")]).toEqual([script, style])
    expect(policy.split("; ")).toEqual([
      "default-src 'none'",
      `script-src ${digest(script)}`,
      `style-src ${digest(style)}`,
      "img-src data:",
      "frame-ancestors 'none'",
      "base-uri 'none'",
      "form-action 'none'",
      "require-trusted-types-for 'script'"
    ])
    // Neither is covered by a digest, so the policy would refuse them.
    expect(text).not.toMatch(/\sstyle=|\son[a-z]+=|javascript:/i)
    expect(`${script}${style}`).not.toMatch(
      /innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|\bimport\b|url\(/
    )
  })

  it("neither loads from nor links to another host", () => {
    const targets = all(/\s(?:href|src|action|srcset|poster|data)="([^"]*)"/g)
    expect(targets.length).toBeGreaterThan(100)
    expect(targets.filter((target) => !/^(?:#|\/openapi\.json$|data:image\/svg)/.test(target))).toEqual([])
    expect(text).not.toMatch(/<(?:iframe|object|embed|form|base|img|link rel="(?!icon))/)
  })

  it("has a target for every internal link, and unique ids", () => {
    const ids = all(/\sid="([^"]*)"/g)
    expect(new Set(ids).size).toBe(ids.length)
    const missing = all(/\shref="#([^"]*)"/g).filter((id) => !ids.includes(id))
    expect(missing).toEqual([])
  })

  it.each(calls.map((each) => [each.operationId, each] as const))(
    "documents for %s its purpose, headers, examples, and the action for each error",
    (id, each) => {
      const section = sectionOf(id)
      expect(section).toContain(escaped(each.summary))
      expect(section).toContain(escaped(each.description))
      for (const { code } of samplesOf(spec, each)) expect(section).toContain(html`<code>${code}</code>`.text)
      for (const given of each.parameters) {
        const name =
          "name" in given ? given.name : spec.components.parameters[given.$ref.replace(/.*\//, "")]?.name
        expect(section).toContain(`<code>${name}</code>`)
      }
      for (const [status, { content }] of Object.entries(each.responses)) {
        const example = content?.["application/json"].examples?.success
        if (example === undefined || !("value" in example)) continue
        expect([status, section]).toEqual([
          status,
          expect.stringContaining(html`${JSON.stringify(example.value, null, 2)}`.text)
        ])
      }
      const failures = failuresOf(spec, each)
      expect(failures.length).toBeGreaterThan(1)
      expect(all(/href="#error-([a-z_]+)"/g, section)).toEqual(failures.map(({ code }) => code))
      for (const { code } of failures) {
        const { message, hint } = failureTable[code as FailureCode]
        expect(section).toContain(escaped(message))
        expect(section).toContain(escaped(hint))
      }
    }
  )

  it("lists every error code of the service in one table, except the one that belongs to no call", () => {
    const codes = all(/<tbody id="error-([a-z_]+)"/g)
    expect([...codes, "method_not_allowed"].sort()).toEqual(Object.keys(failureTable).sort())
    expect(sectionOf("errors")).toContain("method_not_allowed")
  })

  it("adds a script and a style only with their digests, and requests only with their targets", () => {
    const addition = { script: "let added", style: "b{}", connectSources: ["'self'", "http://127.0.0.1:9"] }
    const digest = (given: string) => `'sha256-${createHash("sha256").update(given).digest("base64")}'`
    const added = page(spec, addition)
    expect(added).toContain(`<style>${addition.style}</style>`)
    expect(added).toContain(`<script>${addition.script}</script>`)
    expect(
      added
        .replace(`\n<style>${addition.style}</style>`, "")
        .replace(`\n<script>${addition.script}</script>`, "")
    ).toBe(text)
    expect(contentSecurityPolicy(addition)).toBe(
      policy
        .replace(digest(script), `${digest(script)} ${digest(addition.script)}`)
        .replace(
          digest(style),
          `${digest(style)} ${digest(addition.style)}; connect-src 'self' http://127.0.0.1:9`
        )
    )
  })
})

describe("Templates", () => {
  it("escape everything except HTML values, also in lists", () => {
    const hostile = `<script>"&'`
    expect(html`<a title="${hostile}">${[hostile, html`<b>${1}</b>`]}</a>`.text).toBe(
      '<a title="&lt;script&gt;&quot;&amp;&#39;">&lt;script&gt;&quot;&amp;&#39;<b>1</b></a>'
    )
    expect(html`${new Html({ text: "<i>" })}`.text).toBe("<i>")
  })

  it("show text between backticks as code", () => {
    expect(html`${prose("Send `a<b` now")}`.text).toBe("Send <code>a&lt;b</code> now")
  })
})
