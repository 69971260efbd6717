import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import { send, startTestConsole } from "../support/SandboxConsole.ts"

const json = { "content-type": "application/json" }
const mint = JSON.stringify({ kind: "mint", plane: "production", actor: "si:deejay" })
const person = JSON.stringify({ plane: "production", actor: "si:deejay" })

describe("The console", () => {
  it.scopedLive(
    "serves its page under a policy that allows its own script, style and stream only",
    function* () {
      const { url } = yield* startTestConsole
      const types = {
        "/": "text/html; charset=utf-8",
        "/console.js": "text/javascript; charset=utf-8",
        "/console.css": "text/css; charset=utf-8"
      }
      for (const [path, type] of Object.entries(types)) {
        const { headers, status, text } = yield* send(`${url}${path}`)
        expect(status).toBe(200)
        expect(text.length).toBeGreaterThan(10)
        expect(headers).toMatchObject({
          "content-type": type,
          "content-security-policy":
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
          "cross-origin-opener-policy": "same-origin",
          "cross-origin-resource-policy": "same-origin",
          "x-content-type-options": "nosniff",
          "cache-control": "no-store"
        })
        expect(headers).not.toHaveProperty("access-control-allow-origin")
      }
    }
  )

  it.scopedLive(
    "refuses every request under another name, so that no foreign name can lead to it",
    function* () {
      const { url } = yield* startTestConsole
      const { port } = new URL(url)
      const routes = [
        ["GET", "/"],
        ["GET", "/events"],
        ["GET", "/actors"],
        ["POST", "/actions"],
        ["POST", "/slt"],
        ["POST", "/signed-webhook"],
        ["OPTIONS", "/slt"],
        ["GET", "/elsewhere"]
      ] as const
      for (const host of [`evil.example:${port}`, "127.0.0.1", "127.0.0.1:1", `0.0.0.0:${port}`])
        for (const [method, path] of routes) {
          const { status, text } = yield* send(`${url}${path}`, { method, headers: { ...json, host } })
          expect(`${host} ${path} ${status}`).toBe(`${host} ${path} 403`)
          expect(text).not.toMatch(/oac_|ask_/)
        }
      const local = yield* send(url, { headers: { host: `localhost:${port}` } })
      expect(local.status).toBe(200)
    }
  )

  it.scopedLive(
    "refuses pages of other sites, and answers those of the service on three routes only",
    function* () {
      const { base, url } = yield* startTestConsole
      const postFrom = (path: string, origin: string, body: string) =>
        send(`${url}${path}`, { method: "POST", headers: { ...json, origin }, body })
      for (const origin of ["https://evil.example", "null", "http://127.0.0.1", `${url}.evil.example`]) {
        for (const [path, body] of [
          ["/actions", mint],
          ["/slt", person]
        ] as const) {
          const { headers, status } = yield* postFrom(path, origin, body)
          expect(`${origin} ${status}`).toBe(`${origin} 403`)
          expect(headers).not.toHaveProperty("access-control-allow-origin")
        }
        expect((yield* send(`${url}/events`, { headers: { origin } })).status).toBe(403)
      }
      expect((yield* postFrom("/actions", url, mint)).status).toBe(200)

      const localhost = base.replace("127.0.0.1", "localhost")
      for (const origin of [base, localhost]) {
        expect((yield* postFrom("/actions", origin, mint)).status).toBe(403)
        expect((yield* send(`${url}/events`, { headers: { origin } })).status).toBe(403)
        const preflight = yield* send(`${url}/slt`, { method: "OPTIONS", headers: { origin } })
        expect(preflight).toMatchObject({
          status: 204,
          headers: {
            "access-control-allow-origin": origin,
            "access-control-allow-headers": "content-type",
            vary: "Origin"
          }
        })
        const answer = yield* postFrom("/slt", origin, person)
        expect(answer).toMatchObject({ status: 200, headers: { "access-control-allow-origin": origin } })
        expect(JSON.parse(answer.text)).toEqual({ slt: expect.stringMatching(/^oac_/) })
      }
    }
  )

  it.scopedLive(
    "gives the documentation page the actors and a signed delivery that the service accepts",
    function* () {
      const { base, url } = yield* startTestConsole
      const actors = JSON.parse((yield* send(`${url}/actors`, { headers: { origin: base } })).text)
      expect(actors.planes).toHaveLength(2)
      expect(actors.actors).toContainEqual({
        plane: "production",
        publicId: "c:ana",
        organizations: ["acme", "zenith"]
      })
      const order = {
        plane: "production",
        event: "organization.membership.updated.v1",
        actor: "c:ana",
        org: "zenith"
      }
      const signed = yield* send(`${url}/signed-webhook`, {
        method: "POST",
        headers: json,
        body: JSON.stringify(order)
      })
      const { body, headers } = JSON.parse(signed.text) as {
        body: string
        headers: Record<string, string>
      }
      const delivered = yield* send(`${base}/webhook/`, { method: "POST", headers, body })
      expect(delivered).toMatchObject({ status: 200, text: '{"received":true}' })
    }
  )

  it.scopedLive(
    "refuses what is no JSON, too large, at no path or under another method, with a reason",
    function* () {
      const { url } = yield* startTestConsole
      const post = (body: string, headers: Readonly<Record<string, string>>) =>
        send(`${url}/actions`, { method: "POST", headers, body })
      const form = { "content-type": "application/x-www-form-urlencoded" }
      const answers = [
        [yield* post(mint, {}), 415],
        [yield* post(mint, form), 415],
        [yield* post(mint, { "content-type": "text/plain" }), 415],
        [yield* post("{", json), 400],
        [yield* post("", json), 400],
        [yield* post(JSON.stringify({ text: "x".repeat(1_048_577) }), json), 413],
        [yield* send(`${url}/elsewhere`), 404],
        [yield* send(`${url}/actions`), 405],
        [yield* send(`${url}/`, { method: "DELETE" }), 405]
      ] as const
      for (const [answer, status] of answers) {
        expect(answer.status).toBe(status)
        expect(JSON.parse(answer.text)).toEqual({
          message: expect.stringMatching(/\w/),
          hint: expect.stringMatching(/\w/)
        })
      }
      expect(answers[7][0].headers.allow).toBe("POST")
      // A target that is no path of a URL.
      expect((yield* send(url, { headers: { host: "[" } })).status).toBe(403)
    }
  )
})

describe("The control routes of the simulators", () => {
  it.scopedLive("refuse web pages, and names that lead here from elsewhere", function* () {
    const { world } = yield* startTestConsole
    const mintAt = (headers: Readonly<Record<string, string>>) =>
      send(`${world.iam.url}/_sandbox/slt`, { method: "POST", headers })
    expect((yield* mintAt({})).status).toBe(201)
    for (const headers of [{ origin: "https://evil.example" }, { host: "evil.example" }]) {
      const { status, text } = yield* mintAt(headers)
      expect(status).toBe(403)
      expect(text).not.toContain("oac_")
    }
  })
})
