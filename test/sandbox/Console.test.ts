/** The console beside the real server and the simulators, used as its page uses it, over sockets: its stream, its actions, and whom it refuses. */
import { type IncomingMessage, request, type RequestOptions } from "node:http"
import { createInterface } from "node:readline"
import { Readable } from "node:stream"
import { text } from "node:stream/consumers"
import { Context, Effect, Layer } from "effect"
import { expect } from "vitest"
import type { Action, ActionRecord, Refusal, Session, State } from "../../sandbox/console/Protocol.ts"
import { startTestSandboxWithConsole } from "../world/Sandbox.ts"
import { sharingLive } from "../world/Test.ts"
import { awaited, eventually } from "../world/Waiting.ts"

/** Opens `GET /events`, which closes with the scope: what the stream has brought so far. */
const openTab = (url: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const stop = new AbortController()
      const { body, headers } = await fetch(`${url}/events`, { signal: stop.signal })
      expect(headers.get("content-type")).toBe("text/event-stream")
      const tab = {
        /** The names of all events in the order of their arrival. */
        events: [] as Array<string>,
        state: undefined as State | undefined,
        actions: new Map<number, ActionRecord>(),
        close: () => stop.abort()
      }
      const read = async () => {
        let name = ""
        for await (const line of createInterface({ input: Readable.from(body ?? []) })) {
          const [, field, value = ""] = /^(event|data): (.*)$/.exec(line) ?? []
          if (field === "event") name = value
          if (field !== "data") continue
          tab.events.push(name)
          const data = JSON.parse(value)
          if (name === "state") tab.state = data
          else tab.actions.set(data.id, data)
        }
      }
      // It ends with the tab or with the console.
      void read().catch(() => undefined)
      return tab
    }),
    ({ close }) => Effect.sync(close)
  )

/** Sends a request as it is: with its own Host and Origin, which `fetch` would not send. */
const send = (url: string, { body, ...options }: RequestOptions & { readonly body?: string } = {}) =>
  Effect.promise(async () => {
    // A connection of its own: the console may end a kept one just then.
    const sent = request(url, { ...options, agent: false })
    // A server that refuses a body may close before the rest is sent; its answer has arrived by then.
    sent.on("error", () => {})
    sent.end(body)
    const response = await new Promise<IncomingMessage>((resolve) => sent.on("response", resolve))
    return { status: response.statusCode, headers: response.headers, text: await text(response) }
  })

const json = { "content-type": "application/json" }

const start = Effect.gen(function* () {
  const sandbox = yield* startTestSandboxWithConsole
  const url = sandbox.consoleUrl
  const tab = yield* openTab(url)
  yield* eventually("the first state", () => tab.state !== undefined)
  const post = (status: number, body: unknown) =>
    Effect.map(
      send(`${url}/actions`, { method: "POST", headers: json, body: JSON.stringify(body) }),
      (answer) => {
        expect(answer.status, answer.text).toBe(status)
        return JSON.parse(answer.text)
      }
    )
  const act = (action: Action): Effect.Effect<ActionRecord> => post(200, action)
  const refused = (action: unknown): Effect.Effect<Refusal> => post(400, action)
  const seen = <A>(what: string, read: () => A | undefined, holds: (value: A) => boolean) =>
    Effect.map(
      awaited(what, Effect.sync(read), (value) => value !== undefined && holds(value)),
      (value) => value as A
    )
  const stateWith = (what: string, holds: (state: State) => boolean) => seen(what, () => tab.state, holds)
  const recordWith = (what: string, { id }: ActionRecord, holds: (record: ActionRecord) => boolean) =>
    seen(what, () => tab.actions.get(id), holds)
  const login = Effect.gen(function* () {
    const known = new Set(tab.state?.sessions.map(({ id }) => id))
    const minted = yield* act({ kind: "mint", plane: "production", actor: "si:deejay" })
    const { slt } = JSON.parse(minted.exchange?.responseBody ?? "") as { slt: string }
    yield* act({ kind: "login", plane: "production", slt })
    const isNew = ({ id }: Session) => !known.has(id)
    const { sessions } = yield* stateWith("a new session", (state) => state.sessions.some(isNew))
    return sessions.find(isNew) as Session
  })
  return { ...sandbox, url, tab, act, refused, stateWith, recordWith, login }
})

class TestConsole extends Context.Tag("test/TestConsole")<
  TestConsole,
  Effect.Effect.Success<typeof start>
>() {}

/** The arrows of an action, as `backend -> iam POST /path 200`. */
const arrowsOf = ({ calls }: ActionRecord): ReadonlyArray<string> =>
  calls
    .filter(({ endedAt, isLater }) => endedAt !== null && !isLater)
    .map(({ from, method, path, status, to }) => `${from} -> ${to} ${method} ${path} ${status}`)
const bodyOf = ({ exchange }: ActionRecord): unknown => JSON.parse(exchange?.responseBody ?? "null")

const unsigned = { session: null, org: "", plane: "production" }
const report = { kind: "report", ...unsigned, message: "Playback stops after a seek." } as const
const ting = (session: string) =>
  ({
    ...({ kind: "ting", session, org: "acme", type: "music.trigger.fired" } as const),
    ...{ key: "si:deejay/first", data: '{"a":1}' }
  }) as const
const meOf = (session: string) => ({ kind: "me", session, org: "acme" }) as const
const removed = { event: "organization.silicon.removed.v1", actor: "si:deejay", org: "acme" } as const
const order = { kind: "webhook", plane: "production", ...removed, tamper: false } as const

sharingLive(Layer.scoped(TestConsole, start))("The console", (it) => {
  it("starts its stream with the state and all kept actions, and shows an action while it lasts", function* () {
    const { act, recordWith, tab, url } = yield* TestConsole
    const route = "POST /api/v1/app-auth/tokens"
    yield* act({ kind: "addFault", upstream: "iam", route, fault: "slow", times: 1 })
    const login = yield* Effect.fork(act({ kind: "login", plane: "production", slt: "oac_invented" }))
    const lasts = () => [...tab.actions.values()].some(({ endedAt }) => endedAt === null)
    yield* eventually("the beginning", lasts)
    expect([...tab.actions.values()].at(-1)).toMatchObject({ exchange: null })
    yield* recordWith("the end", yield* login, ({ endedAt }) => endedAt !== null)
    const second = yield* openTab(url)
    yield* eventually("the kept actions", () => second.events.length === 3)
    expect(second.events).toEqual(["state", "action", "action"])
    expect([...second.actions.keys()]).toEqual([...tab.actions.keys()])
  })

  it("shows a login in a testing plane with its key, its answer and the calls that it caused", function* () {
    const { act, stateWith, world } = yield* TestConsole
    const { environmentId: plane, musicSecret } = world.seeded.environment
    const login = yield* act({ kind: "login", plane, slt: "si:lyra" })
    const requestHeaders = { "x-testing-environment-key": musicSecret, "x-music-source": "cli" }
    expect(login).toMatchObject({ title: "Log in as si:lyra", exchange: { status: 200, requestHeaders } })
    expect(arrowsOf(login).filter((arrow) => !arrow.includes(" GET "))).toEqual([
      "console -> backend POST /api/v1/auth/login 200",
      "backend -> iam POST /api/v1/app-auth/tokens 200",
      "backend -> iam POST /api/v1/oauth/introspect 200",
      "backend -> iam POST /api/v1/obo-access/exchanges 201",
      "backend -> ting POST /v1/subscriptions 201",
      "ting -> iam POST /api/v1/obo-access/verify 200"
    ])
    const { sessions } = yield* stateWith("its session", (state) => state.sessions.length > 0)
    expect((yield* act(meOf(sessions[0]?.id ?? ""))).exchange?.status).toBe(200)
  })

  it("lets the service judge what is sent", function* () {
    const { act, login } = yield* TestConsole
    const { id } = yield* login
    const deep = `${"[".repeat(32_000)}${"]".repeat(32_000)}`
    const long = { ...report, message: "x".repeat(262_144) }
    const wrong = [
      { ...ting(id), key: `si:deejay/${"x".repeat(200)}` },
      ...["no JSON", deep].map((data) => ({ ...ting(id), data }))
    ]
    for (const action of [...wrong, { ...report, message: "short" }, { ...meOf(id), org: "" }, long] as const)
      expect((yield* act(action)).exchange?.status).toBe(400)
    const telemetry = { kind: "telemetry", ...unsigned, table: "musicclidaemon", type: "t" } as const
    expect((yield* act({ ...telemetry, data: "{}" })).exchange?.status).toBe(204)
  })

  it("shows a call of another program with its diagram, its plane and its session", function* () {
    const { act, base, login: logIn, recordWith, stateWith, tab, world } = yield* TestConsole
    const { environmentId: plane, musicSecret } = world.seeded.environment
    const headers = { "content-type": "application/json", "user-agent": "curl/8.5.0" }
    const key = { "idempotency-key": "login-0000000000000001", "x-testing-environment-key": musicSecret }
    const body = '{"slt":"c:ana"}'
    const chunked = { ...headers, ...key, "transfer-encoding": "chunked" }
    yield* send(`${base}/api/v1/auth/login`, { method: "POST", headers: chunked, body })
    const isOfAna = ({ sessions: [newest] }: State) => newest?.actor === "c:ana"
    const { sessions } = yield* stateWith("its session", isOfAna)
    expect(sessions[0]).toMatchObject({ plane, status: "active" })
    const [login] = [...tab.actions.values()].filter(({ action }) => action.kind === "program")
    if (login === undefined) return yield* Effect.dieMessage("no entry")
    const seen = yield* recordWith("its end", login, ({ endedAt }) => endedAt !== null)
    expect(seen).toMatchObject({
      title: "curl: POST /api/v1/auth/login",
      plane,
      action: { kind: "program", agent: "curl", does: "login" },
      exchange: { status: 200, requestBody: body, requestHeaders: key }
    })
    expect(seen.exchange?.responseBody).toContain("refresh_token")
    expect(arrowsOf(seen)).toContain("backend -> ting POST /v1/subscriptions 201")
    // It can be sent again, and what it made is found when it arrives.
    expect((yield* act({ kind: "repeat", action: seen.id })).exchange?.status).toBe(200)
    const id = "01990c6e-5f0a-7c1e-8d3b-2a4f6b8c0d1e"
    const events = `{"table":"musicclidaemon","events":[{"id":"${id}","type":"t"}]}`
    yield* send(`${base}/api/v1/telemetry`, { method: "POST", headers, body: events })
    yield* stateWith("its row", ({ rows }) => rows.some(({ recordId }) => recordId === id))
    const shipped = [...tab.actions.values()].at(-1)
    if (shipped === undefined) return yield* Effect.dieMessage("no entry")
    const row = yield* recordWith("its delivery", shipped, ({ calls }) =>
      calls.some(({ isLater }) => isLater)
    )
    expect(row.calls.map(({ to }) => to)).toEqual(["backend", "tables"])
    // The service refuses it before it has read its body.
    yield* send(`${base}/api/v1/tings`, { method: "POST", headers, body: '{"mine":1}' })
    const isWhole = ({ exchange }: ActionRecord) =>
      exchange?.status === 401 && exchange.requestBody === '{"mine":1}'
    yield* eventually("its refusal", () => [...tab.actions.values()].some(isWhole))
    // A key that no plane has selects none.
    yield* send(`${base}/healthz`, { headers: { "x-testing-environment-key": "ask_unknown" } })
    const isProbe = ({ plane, title }: ActionRecord) => title.endsWith("GET /healthz") && plane === null
    yield* eventually("a probe", () => [...tab.actions.values()].some(isProbe))
    // Many logins of one plane do not hide those of another.
    const { id: other } = yield* logIn
    const authorization = `Basic ${btoa(`music:${musicSecret}`)}`
    const form = { "content-type": "application/x-www-form-urlencoded", authorization }
    for (let count = 100; count < 201; count += 1)
      yield* send(`${world.iam.url}/api/v1/app-auth/tokens`, {
        method: "POST",
        headers: { ...form, "x-testing-application": authorization, "idempotency-key": `${id}-${count}` },
        body: "app_id=music&slt=si:lyra"
      })
    const isOfLyra = (session: Session) => session.actor === "si:lyra"
    const full = yield* stateWith("the newest", (state) => state.sessions.filter(isOfLyra).length === 100)
    expect(full.sessions.map((session) => session.id)).toContain(other)
  })

  it("sends webhooks that are signed or tampered with, and they take effect", function* () {
    const { act, login, stateWith } = yield* TestConsole
    const me = meOf((yield* login).id)
    const tampered = yield* act({ ...order, tamper: true })
    expect(arrowsOf(tampered)).toEqual(["iam -> backend POST /webhook/ 401"])
    expect((yield* act(me)).exchange?.status).toBe(200)
    expect(bodyOf(yield* act(order))).toEqual({ received: true })
    yield* stateWith("the removal", ({ actors }) => actors[0]?.organizations.length === 0)
    expect((yield* act(me)).exchange?.status).not.toBe(200)
    yield* act({ ...order, event: "organization.silicon.created.v1" })
    yield* login
  })

  it("refuses actions that cannot be done, and says what to do instead", function* () {
    const { login, refused } = yield* TestConsole
    const { id } = yield* login
    const fault = { kind: "addFault", upstream: "iam", route: "GET /elsewhere", fault: "down", times: 1 }
    const cases: ReadonlyArray<readonly [unknown, RegExp]> = [
      [{ ...order, actor: "c:ana" }, /is about a silicon/],
      [{ ...order, actor: "si:unknown" }, /no actor si:unknown/],
      [{ ...order, org: "zenith" }, /si:deejay is not in zenith/],
      [{ ...order, actor: "c:ana", event: "session.logout.v1", org: null }, /no session at IAM/],
      [{ kind: "repeat", action: 10_000 }, /no longer kept/],
      [{ ...ting(id), org: "ämter" }, /visible ASCII/],
      [fault, /no such route/],
      [{ kind: "refresh", session: id, more: true }, /more/]
    ]
    for (const [action, reason] of cases) {
      const refusal = yield* refused(action)
      expect(refusal.message).toMatch(reason)
      expect(refusal.hint).toMatch(/./)
    }
  })

  it("moves the clock, which ends sessions; the server lives on through 90 days", function* () {
    const { act, base, log, login, stateWith } = yield* TestConsole
    const hour = 3_600_000
    const before = log.length
    const { id } = yield* login
    yield* act({ kind: "advanceClock", milliseconds: hour })
    yield* stateWith("an expired session", ({ sessions }) => sessions[0]?.status === "expired")
    expect((yield* act(meOf(id))).exchange?.status).toBe(401)
    expect((yield* act({ kind: "refresh", session: id })).exchange?.status).toBe(200)
    yield* act({ kind: "advanceClock", milliseconds: 90 * 24 * hour })
    expect((yield* send(`${base}/readyz`)).status).toBe(200)
    expect((yield* act(meOf((yield* login).id))).exchange?.status).toBe(200)
    expect(log.slice(before).filter((line) => /"level":"(?:error|warn)"/.test(line))).toEqual([])
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

  it("refuses every request under another name and of other sites, also that of the service", function* () {
    const { base, url, world } = yield* TestConsole
    const { port } = new URL(url)
    const body = JSON.stringify({ kind: "mint", plane: "production", actor: "si:deejay" })
    const post = (headers: Readonly<Record<string, string>>, content = body) =>
      send(`${url}/actions`, { method: "POST", headers: { ...json, ...headers }, body: content })
    const foreign = [
      ...[`evil.example:${port}`, "127.0.0.1", `0.0.0.0:${port}`, "["].map((host) => ({ host })),
      ...["https://evil.example", "null", `${url}.evil.example`, base].map((origin) => ({ origin }))
    ]
    for (const headers of foreign)
      for (const answer of [post(headers), send(`${url}/events`, { headers })]) {
        const { headers: answered, status } = yield* answer
        expect([headers, status]).toEqual([headers, 403])
        expect(answered).not.toHaveProperty("access-control-allow-origin")
      }
    expect((yield* post({ origin: url })).status).toBe(200)
    expect((yield* send(url, { headers: { host: `localhost:${port}` } })).status).toBe(200)
    // Without the type of JSON a page could send it unasked; a long body is not read.
    expect((yield* post({ "content-type": "text/plain" })).status).toBe(415)
    expect((yield* post({}, body.padEnd(1_048_577))).status).toBe(413)
    // And so do the control routes of the simulators.
    const mintAt = (headers: Readonly<Record<string, string>>) =>
      send(`${world.iam.url}/_sandbox/slt`, { method: "POST", headers })
    expect((yield* mintAt({})).status).toBe(201)
    for (const headers of [{ origin: "https://evil.example" }, { host: "evil.example" }])
      expect((yield* mintAt(headers)).status).toBe(403)
    // The service itself has no name; its documentation page has a session of the console's own names only.
    const shown = (host: string) =>
      Effect.map(send(`${base}/docs`, { headers: { host } }), ({ status, text }) => {
        expect(status).toBe(200)
        return world.minted().some((secret) => text.includes(secret))
      })
    const own = new URL(base)
    expect([yield* shown(own.host), yield* shown(`localhost:${own.port}`)]).toEqual([true, true])
    expect([yield* shown(`evil.example:${own.port}`), yield* shown("evil.example")]).toEqual([false, false])
  })
})
