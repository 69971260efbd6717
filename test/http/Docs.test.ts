import { createHash } from "node:crypto"
import { expect } from "vitest"
import { sharing } from "../world/Test.ts"
import { outcomeOf, shared, sharedOnSocket } from "./support.ts"

const asBrowser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

sharing(sharedOnSocket())("The page of the API", (it) => {
  it.effect("is served under a policy that names its scripts, and reaches no other host", function* () {
    const { headers, status, text } = yield* (yield* shared).send({ path: "/docs" })
    expect([status, headers["content-type"]]).toEqual([200, "text/html; charset=utf-8"])
    expect(headers).toMatchObject({ "cross-origin-opener-policy": "same-origin", "x-frame-options": "DENY" })
    const digests = [...text.matchAll(/<script>([\s\S]*?)<\/script>/g)].map(
      ([, script = ""]) => `'sha256-${createHash("sha256").update(script).digest("base64")}'`
    )
    expect(digests).toHaveLength(2)
    expect(String(headers["content-security-policy"]).split("; ")).toEqual([
      "default-src 'none'",
      `script-src 'wasm-unsafe-eval' ${digests.join(" ")}`,
      "style-src 'unsafe-inline'",
      "connect-src 'self'",
      "img-src data:",
      "frame-ancestors 'none'",
      "base-uri 'none'",
      "form-action 'none'"
    ])
    expect(text).not.toMatch(/<script[^>]+src=|<link/)
    expect(['"name":"X-Org-ID"', '"name":"Origin"'].map((name) => text.includes(name))).toEqual([true, false])
  })

  it.effect("is served at / to a browser, and 404 to a program; caches keep the two apart", function* () {
    const server = yield* shared
    const page = (yield* server.send({ path: "/docs" })).text
    for (const accept of [asBrowser, "text/html", "application/json, TEXT/HTML ; q=0.1"]) {
      const { headers, text } = yield* server.send({ path: "/", headers: { accept } })
      expect([accept, text === page, headers.vary]).toEqual([accept, true, "Accept"])
    }
    for (const accept of [undefined, "", "*/*", "application/json", "text/html;q=0", "text/htmlx"]) {
      const answer = yield* server.send({ path: "/", headers: accept === undefined ? {} : { accept } })
      const { "cache-control": caching, vary } = answer.headers
      expect([accept, outcomeOf(answer), caching, vary]).toEqual([accept, "not_found", "no-store", "Accept"])
    }
    expect(server.reached).toEqual([])
  })
})
