/** The console as a server: its stream of events, what it keeps, and whom it refuses. */
import * as Effect from "effect/Effect"
import { expect } from "vitest"
import { eventually } from "../world/Waiting.ts"
import { openTab, send, sharingConsole, TestConsole } from "./Console.ts"

const invented = { kind: "login", plane: "production", slt: "oac_invented" } as const

const json = { "content-type": "application/json" }
const mint = JSON.stringify({ kind: "mint", plane: "production", actor: "si:deejay" })

sharingConsole("The console", (it) => {
  it("starts its stream with the state and all kept actions, and shows an action while it lasts", function* () {
    const { act, recordWith, tab, url } = yield* TestConsole
    const route = "POST /api/v1/app-auth/tokens"
    yield* act({ kind: "addFault", upstream: "iam", route, fault: "slow", times: 1 })
    const login = yield* Effect.fork(act(invented))
    const lasts = () => [...tab.actions.values()].some(({ endedAt }) => endedAt === null)
    yield* eventually("the beginning", lasts)
    expect([...tab.actions.values()].at(-1)).toMatchObject({ exchange: null })
    const record = yield* login
    yield* recordWith("the end", record, ({ endedAt }) => endedAt !== null)
    const second = yield* openTab(url)
    yield* eventually("the kept actions", () => second.events.length === 3)
    expect(second.events).toEqual(["state", "action", "action"])
    expect([...second.actions.keys()]).toEqual([...tab.actions.keys()])
  })

  it("serves its page under a policy that allows its own parts only", function* () {
    const { url } = yield* TestConsole
    const own = "script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:"
    for (const path of ["/", "/console.js", "/console.css"]) {
      const { headers, status } = yield* send(`${url}${path}`)
      expect(status).toBe(200)
      expect(headers).toMatchObject({
        "content-security-policy": `default-src 'none'; ${own}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "x-content-type-options": "nosniff"
      })
      expect(headers).not.toHaveProperty("access-control-allow-origin")
    }
  })

  it("refuses every request under another name, so that no foreign name leads to it", function* () {
    const { url, world } = yield* TestConsole
    const { port } = new URL(url)
    const gets = ["/", "/events", "/elsewhere"].map((path) => ["GET", path] as const)
    for (const host of [`evil.example:${port}`, "127.0.0.1", "127.0.0.1:1", `0.0.0.0:${port}`, "["])
      for (const [method, path] of [...gets, ["POST", "/actions"], ["OPTIONS", "/actions"]] as const) {
        const { status } = yield* send(`${url}${path}`, { method, headers: { ...json, host } })
        expect(`${host} ${path} ${status}`).toBe(`${host} ${path} 403`)
      }
    expect((yield* send(url, { headers: { host: `localhost:${port}` } })).status).toBe(200)
    // And so do the control routes of the simulators, also web pages.
    const mintAt = (headers: Readonly<Record<string, string>>) =>
      send(`${world.iam.url}/_sandbox/slt`, { method: "POST", headers })
    expect((yield* mintAt({})).status).toBe(201)
    for (const headers of [{ origin: "https://evil.example" }, { host: "evil.example" }])
      expect((yield* mintAt(headers)).status).toBe(403)
  })

  it("refuses other sites, also that of the service", function* () {
    const { base, url } = yield* TestConsole
    const from = (path: string, origin: string, body: string) =>
      send(`${url}${path}`, { method: "POST", headers: { ...json, origin }, body })
    const events = (origin: string) => send(`${url}/events`, { headers: { origin } })
    for (const origin of ["https://evil.example", "null", "http://127.0.0.1", `${url}.evil.example`, base]) {
      const asked = [from("/actions", origin, mint), events(origin)]
      for (const answer of asked) {
        const { headers, status } = yield* answer
        expect([origin, status]).toEqual([origin, 403])
        expect(headers).not.toHaveProperty("access-control-allow-origin")
      }
    }
    expect((yield* from("/actions", url, mint)).status).toBe(200)
    // Without the type of JSON a page could send it unasked.
    const plain = { method: "POST", headers: { "content-type": "text/plain" }, body: mint }
    expect((yield* send(`${url}/actions`, plain)).status).toBe(415)
    // A long body is not read.
    const long = { method: "POST", headers: json, body: mint.padEnd(1_048_577) }
    expect((yield* send(`${url}/actions`, long)).status).toBe(413)
  })
})
