/** The console as a server: its stream of events, what it keeps, and whom it refuses. */
import { connect } from "node:net"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { describe, expect } from "vitest"
import type { ActionRecord } from "../../sandbox/console/Protocol.ts"
import { openTab, send, startTestConsole, type Tab } from "../support/SandboxConsole.ts"
import { eventually } from "../support/Waiting.ts"
import { it } from "../world/Test.ts"

const clock = { kind: "advanceClock", milliseconds: 1 } as const
const nobody = { session: null, org: null }
const hasAll = (tab: Tab, records: ReadonlyArray<ActionRecord>) =>
  eventually("all actions", () => records.every(({ id }) => tab.actions.get(id)?.endedAt !== undefined))

describe("The stream of events", () => {
  it.scopedLive(
    "starts with the state and all kept actions, in each tab and after a reconnect",
    function* () {
      const { act, tab, url } = yield* startTestConsole
      expect(tab.events).toEqual(["state"])
      const records = [yield* act(clock), yield* act(clock)]
      const second = yield* openTab(url)
      yield* hasAll(second, records)
      expect(second.events).toEqual(["state", "action", "action"])
      expect([...second.actions.keys()]).toEqual(records.map(({ id }) => id))
      tab.close()
      const third = yield* act(clock)
      const again = yield* openTab(url)
      yield* hasAll(again, [...records, third])
      yield* hasAll(second, [third])
      expect([...again.actions.values()]).toEqual([...second.actions.values()])
    }
  )

  it.scopedLive("shows an action while it lasts, and again when it has ended", function* () {
    const { act, recordWith, tab } = yield* startTestConsole
    const route = "POST /api/v1/app-auth/tokens"
    yield* act({ kind: "addFault", upstream: "iam", route, fault: "slow", times: 1 })
    const login = yield* Effect.fork(act({ kind: "login", plane: "production", slt: "oac_invented" }))
    yield* eventually("the beginning", () =>
      [...tab.actions.values()].some(({ endedAt }) => endedAt === null)
    )
    const record = yield* login
    expect(record.exchange?.status).toBe(401)
    yield* recordWith("the end", record, ({ endedAt }) => endedAt !== null)
  })

  it.scopedLive("of a tab that reads nothing delays neither actions nor other tabs", function* () {
    const { act, tab, url } = yield* startTestConsole
    const { host, hostname, port } = new URL(url)
    const stuck = yield* Effect.acquireRelease(
      Effect.sync(() => connect(Number(port), hostname)),
      (socket) => Effect.sync(() => socket.destroy())
    )
    stuck.pause()
    stuck.write(`GET /events HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    // More than the buffers of the sockets hold.
    const data = JSON.stringify({ text: "x".repeat(60_000) })
    for (let count = 0; count < 120; count += 1)
      yield* act({ kind: "telemetry", ...nobody, table: "musicclidaemon", type: "t", data })
    yield* hasAll(tab, [yield* act(clock)])
  })

  it.live(
    "ends with the console, which the service can still reach until it has stopped itself",
    function* () {
      const scope = yield* Scope.make()
      const { act, log, tab } = yield* Scope.extend(startTestConsole, scope)
      // The service sends the spans of this action to the console while it stops.
      yield* act({ kind: "login", plane: "production", slt: "oac_invented" })
      yield* Scope.close(scope, Exit.void)
      yield* eventually("the end of the stream", () => tab.ended)
      expect(log.filter((line) => line.includes("OpenTelemetry"))).toEqual([])
    }
  )
})

describe("What the console keeps is bounded:", () => {
  it.scopedLive("32 tabs, 200 actions and 100 entries of a list; long texts are cut", function* () {
    const { act, stateWith, tab, url } = yield* startTestConsole
    const long = yield* act({ kind: "report", ...nobody, message: "\n".repeat(60_000) })
    const requestBody = expect.stringMatching(/\[cut: \d+ bytes/)
    expect(long.exchange).toMatchObject({ isCut: true, requestBody })
    for (let count = 0; count < 120; count += 1)
      yield* act({ kind: "mint", plane: "production", actor: "si:lyra" })
    expect((yield* stateWith("the tokens", ({ slts }) => slts.length >= 100)).slts).toHaveLength(100)
    let last = 0
    for (let count = 0; count < 120; count += 1) last = (yield* act(clock)).id
    yield* eventually("the last action", () => tab.actions.has(last))
    const fresh = yield* openTab(url)
    yield* eventually("the kept actions", () => fresh.actions.has(last))
    expect([fresh.actions.size, Math.min(...fresh.actions.keys())]).toEqual([200, last - 199])
    for (let count = 2; count < 32; count += 1) yield* openTab(url)
    const refused = yield* send(`${url}/events`)
    expect(refused.status).toBe(503)
    expect(JSON.parse(refused.text).hint).toBe("close some, and reload this one")
  })
})

const json = { "content-type": "application/json" }
const mint = JSON.stringify({ kind: "mint", plane: "production", actor: "si:deejay" })
const person = JSON.stringify({ plane: "production", actor: "si:deejay" })

describe("The console", () => {
  it.scopedLive(
    "serves its page under a policy that allows its own script, style and stream only",
    function* () {
      const { url } = yield* startTestConsole
      for (const [path, type] of [
        ["/", "text/html; charset=utf-8"],
        ["/console.js", "text/javascript; charset=utf-8"],
        ["/console.css", "text/css; charset=utf-8"]
      ] as const) {
        const { headers, status } = yield* send(`${url}${path}`)
        expect(status).toBe(200)
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
      const { url, world } = yield* startTestConsole
      const { port } = new URL(url)
      const gets = ["/", "/events", "/actors", "/elsewhere"].map((path) => ["GET", path] as const)
      const posts = ["/actions", "/slt", "/signed-webhook"].map((path) => ["POST", path] as const)
      for (const host of [`evil.example:${port}`, "127.0.0.1", "127.0.0.1:1", `0.0.0.0:${port}`, "["])
        for (const [method, path] of [...gets, ...posts, ["OPTIONS", "/slt"] as const]) {
          const { status, text } = yield* send(`${url}${path}`, { method, headers: { ...json, host } })
          expect(`${host} ${path} ${status}`).toBe(`${host} ${path} 403`)
          expect(text).not.toMatch(/oac_|ask_/)
        }
      expect((yield* send(url, { headers: { host: `localhost:${port}` } })).status).toBe(200)
      // And so do the control routes of the simulators, also web pages.
      const mintAt = (headers: Readonly<Record<string, string>>) =>
        send(`${world.iam.url}/_sandbox/slt`, { method: "POST", headers })
      expect((yield* mintAt({})).status).toBe(201)
      for (const headers of [{ origin: "https://evil.example" }, { host: "evil.example" }])
        expect((yield* mintAt(headers)).status).toBe(403)
    }
  )

  it.scopedLive(
    "refuses pages of other sites, and answers those of the service on three routes only",
    function* () {
      const { base, url } = yield* startTestConsole
      const from = (path: string, origin: string, body: string) =>
        send(`${url}${path}`, { method: "POST", headers: { ...json, origin }, body })
      const events = (origin: string) => send(`${url}/events`, { headers: { origin } })
      for (const origin of ["https://evil.example", "null", "http://127.0.0.1", `${url}.evil.example`])
        for (const answer of [
          yield* from("/actions", origin, mint),
          yield* from("/slt", origin, person),
          yield* events(origin)
        ]) {
          expect([origin, answer.status]).toEqual([origin, 403])
          expect(answer.headers).not.toHaveProperty("access-control-allow-origin")
        }
      expect((yield* from("/actions", url, mint)).status).toBe(200)
      for (const origin of [base, base.replace("127.0.0.1", "localhost")]) {
        expect((yield* from("/actions", origin, mint)).status).toBe(403)
        expect((yield* events(origin)).status).toBe(403)
        const allowed = { "access-control-allow-origin": origin }
        const preflight = yield* send(`${url}/slt`, { method: "OPTIONS", headers: { origin } })
        const headers = { ...allowed, "access-control-allow-headers": "content-type", vary: "Origin" }
        expect(preflight).toMatchObject({ status: 204, headers })
        const answer = yield* from("/slt", origin, person)
        expect(answer).toMatchObject({ status: 200, headers: allowed })
        expect(JSON.parse(answer.text)).toEqual({ slt: expect.stringMatching(/^oac_/) })
      }
      const { actors } = JSON.parse((yield* send(`${url}/actors`, { headers: { origin: base } })).text)
      expect(actors).toContainEqual({
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
      const { body, headers } = JSON.parse((yield* from("/signed-webhook", base, JSON.stringify(order))).text)
      expect((yield* send(`${base}/webhook/`, { method: "POST", headers, body })).text).toBe(
        '{"received":true}'
      )
    }
  )

  it.scopedLive(
    "refuses what is no JSON, too large, at no path or under another method, with a reason",
    function* () {
      const { url } = yield* startTestConsole
      for (const [status, path, body, type] of [
        [415, "/actions", mint, ""],
        [415, "/actions", mint, "application/x-www-form-urlencoded"],
        [415, "/actions", mint, "text/plain"],
        [400, "/actions", "{", "application/json"],
        [400, "/actions", "", "application/json"],
        [413, "/actions", JSON.stringify({ text: "x".repeat(1_048_577) }), "application/json"],
        [404, "/elsewhere", "{}", "application/json"],
        [405, "/events", "{}", "application/json"]
      ] as const) {
        const headers = type === "" ? {} : { "content-type": type }
        const answer = yield* send(`${url}${path}`, { method: "POST", headers, body })
        expect([path, type, answer.status]).toEqual([path, type, status])
        const words = expect.stringMatching(/\w/)
        expect(JSON.parse(answer.text)).toEqual({ message: words, hint: words })
      }
    }
  )
})
