import { createHash } from "node:crypto"
import { expect } from "vitest"
import { sharing } from "../world/Test.ts"
import { shared, sharedOnSocket } from "./support.ts"

sharing(sharedOnSocket())("The page of the API", (it) => {
  it.effect("is served under a policy that names its scripts, and reaches no other host", function* () {
    const server = yield* shared
    const { headers, status, text } = yield* server.send({ path: "/docs" })
    const document = yield* server.send({ path: "/openapi.json" })
    // Both may be stored.
    for (const one of [headers, document.headers]) expect(one["cache-control"]).toBe("no-cache")
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
})
