import { createHash } from "node:crypto"
import { expect } from "vitest"
import { sharing } from "../world/Test.ts"
import { callsOf, freshDocument } from "./Documented.ts"
import { outcomeOf, shared, sharedOnSocket } from "./support.ts"

const asBrowser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

sharing(sharedOnSocket())("The page of the API", (it) => {
  it.effect(
    "is served under a policy that names its script and its style, and reaches no other host",
    function* () {
      const { headers, status, text } = yield* (yield* shared).send({ path: "/docs" })
      expect([status, headers["content-type"]]).toEqual([200, "text/html; charset=utf-8"])
      expect(headers).toMatchObject({
        "cross-origin-opener-policy": "same-origin",
        "x-frame-options": "DENY"
      })
      const policy = headers["content-security-policy"]
      const digest = (tag: string) => {
        const [, inner = ""] = text.split(new RegExp(`</?${tag}>`))
        return `'sha256-${createHash("sha256").update(inner).digest("base64")}'`
      }
      expect(String(policy).split("; ")).toEqual([
        "default-src 'none'",
        `script-src ${digest("script")}`,
        `style-src ${digest("style")}`,
        "img-src data:",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'"
      ])
      expect(text).not.toMatch(
        /\sstyle=|\son[a-z]+=|javascript:|<(?:iframe|object|embed|form|base|img|link rel="(?!icon))/i
      )
      const targets = [...text.matchAll(/\s(?:href|src|action|srcset|poster|data)="([^"]*)"/g)].map(
        ([, target]) => target
      )
      expect(targets.length).toBeGreaterThan(100)
      expect(
        targets.filter((target = "") => !/^(?:#|\/openapi\.json$|data:image\/svg)/.test(target))
      ).toEqual([])
      for (const { operationId } of callsOf(freshDocument()))
        expect(text).toContain(`<section id="${operationId}"`)
    }
  )

  it.effect("is served at / to a browser, and 404 to a program; caches keep the two apart", function* () {
    const server = yield* shared
    const page = (yield* server.send({ path: "/docs" })).text
    for (const accept of [asBrowser, "text/html", "application/json, TEXT/HTML ; q=0.1"]) {
      const { headers, text } = yield* server.send({ path: "/", headers: { accept } })
      expect([accept, text === page, headers.vary]).toEqual([accept, true, "Accept, Accept-Encoding"])
      const known = { accept, "if-none-match": headers.etag ?? "" }
      expect((yield* server.send({ path: "/", headers: known })).status).toBe(304)
    }
    for (const accept of [undefined, "", "*/*", "application/json", "text/html;q=0", "text/htmlx"]) {
      const answer = yield* server.send({ path: "/", headers: accept === undefined ? {} : { accept } })
      expect([accept, outcomeOf(answer), answer.headers.vary]).toEqual([
        accept,
        "not_found",
        "Accept, Accept-Encoding"
      ])
    }
    expect(server.reached).toEqual([])
  })
})
