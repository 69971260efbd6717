/** The actions of the console over HTTP: the request, the answer and the calls that it caused; faults, webhooks and the clock. */
import * as Effect from "effect/Effect"
import { expect } from "vitest"
import type { ActionRecord, FaultKind, State } from "../../sandbox/console/Protocol.ts"
import { awaited } from "../world/Waiting.ts"
import { arrowOf, send, sharingConsole, TestConsole } from "./Console.ts"

const arrowsOf = ({ calls }: ActionRecord) => calls.filter(({ isLater }) => !isLater).map(arrowOf)
const bodyOf = ({ exchange }: ActionRecord): unknown => JSON.parse(exchange?.responseBody ?? "null")

const message = "Playback stops after a seek."
const unsigned = { session: null, org: "", plane: "production" }
const report = { kind: "report", ...unsigned, message } as const
const telemetry = { kind: "telemetry", ...unsigned, table: "musicclidaemon", type: "t", data: "{}" } as const
const ting = (session: string, key = "si:deejay/first") =>
  ({ kind: "ting", session, org: "acme", type: "music.trigger.fired", key, data: '{"a":1}' }) as const
const meOf = (session: string) => ({ kind: "me", session, org: "acme" }) as const
const removed = { event: "organization.silicon.removed.v1", actor: "si:deejay", org: "acme" } as const
const order = { kind: "webhook", plane: "production", ...removed, tamper: false } as const

sharingConsole("The console", (it) => {
  it("An action shows its request, the answer and the calls that it caused: login and me, in a testing plane with its key", function* () {
    const { act, stateWith, world } = yield* TestConsole
    const { environmentId: plane, musicSecret } = world.seeded.environment
    const login = yield* act({ kind: "login", plane, slt: "si:lyra" })
    const requestHeaders = { "x-testing-environment-key": musicSecret, "x-music-source": "cli" }
    expect(login).toMatchObject({ title: "Log in as si:lyra", exchange: { status: 200, requestHeaders } })
    const calls = arrowsOf(login).filter((arrow) => !arrow.includes(" GET "))
    expect(calls).toEqual([
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

  it("A ting and its repetition, a report and telemetry, which arrive", function* () {
    const { act, login, recordWith, stateWith } = yield* TestConsole
    const { id } = yield* login()
    const sent = yield* act(ting(id))
    expect(bodyOf(sent)).toMatchObject({ replayed: false })
    const again = yield* act({ kind: "repeat", action: sent.id })
    expect(again.exchange?.requestBody).toBe(sent.exchange?.requestBody)
    expect(bodyOf(again)).toMatchObject({ replayed: true })
    const { inbox } = yield* stateWith("the ting", (state) => state.inbox.length > 0)
    expect(inbox).toMatchObject([{ recipient: "si:deejay", key: "si:deejay/first", data: { a: 1 } }])
    const deliveries = (action: ActionRecord) => {
      const later = ({ calls }: ActionRecord) =>
        calls.filter(({ endedAt, isLater }) => isLater && endedAt !== null)
      return Effect.map(
        recordWith("the delivery", action, (record) => later(record).length > 0),
        (record) => later(record).map(arrowOf)
      )
    }
    const filing = yield* act({ ...report, session: id, org: "acme" })
    expect(yield* deliveries(filing)).toEqual([
      "backend -> tracker POST /repos/harbor/music/issues 201 later"
    ])
    const shipping = yield* act(telemetry)
    expect(shipping.exchange?.status).toBe(204)
    expect(yield* deliveries(shipping)).toEqual(["backend -> tables POST /api/ingest 200 later"])
    const { issues } = yield* stateWith("the issue and the row", (state) =>
      state.rows.some(({ table }) => table === "musicclidaemon")
    )
    expect(issues).toMatchObject([{ title: `[report] ${message}`, state: "open" }])
    // The report's own address leads to that issue.
    const asked = Effect.map(act({ kind: "repeat", action: filing.id }), bodyOf)
    const isFiled = (body: unknown) => typeof body === "object" && !Object.values(body ?? {}).includes(null)
    const { issue_url: url } = (yield* awaited("its address", asked, isFiled)) as { issue_url: string }
    expect(url).toBe(issues[0]?.url)
    expect((yield* send(url)).text).toContain(`<bdi>[report] ${message}</bdi>`)
  })

  it("A caller without a session is in the chosen plane", function* () {
    const { act, stateWith, world } = yield* TestConsole
    const { environmentId: plane, musicSecret } = world.seeded.environment
    const before = (yield* stateWith("the state", () => true)).rows
    const testing = { ...report, plane, message: "Playback stops in a test." }
    const sent = [yield* act(testing), yield* act({ ...telemetry, plane })]
    for (const { exchange } of sent)
      expect(exchange?.requestHeaders).toMatchObject({ "x-testing-environment-key": musicSecret })
    expect(sent.map(({ exchange }) => exchange?.status)).toEqual([200, 204])
    // What was sent before would be there, too: reports are filed in order.
    yield* act({ ...report, message: "Playback stops at its end." })
    const title = "[report] Playback stops at its end."
    const isFiled = ({ issues: [newest] }: State) => newest?.title === title
    const { issues, rows } = yield* stateWith("the issue of production", isFiled)
    expect(issues.filter((issue) => issue.title.includes("in a test"))).toEqual([])
    expect(rows).toHaveLength(before.length)
  })

  it("The service judges what is sent, not the page", function* () {
    const { act, login } = yield* TestConsole
    const { id } = yield* login()
    const deep = `${"[".repeat(32_000)}${"]".repeat(32_000)}`
    const wrong = [
      ting(id, `si:deejay/${"x".repeat(200)}`),
      ...["no JSON", deep].map((data) => ({ ...ting(id), data }))
    ]
    for (const action of [...wrong, { ...report, message: "short" }, { ...meOf(id), org: "" }] as const)
      expect((yield* act(action)).exchange?.status).toBe(400)
  })

  it("A call of another program appears with its diagram, its plane and its session", function* () {
    const { act, base, recordWith, stateWith, tab, world } = yield* TestConsole
    const { environmentId: plane, musicSecret } = world.seeded.environment
    const headers = { "content-type": "application/json", "user-agent": "curl/8.5.0" }
    const key = { "idempotency-key": "login-0000000000000001", "x-testing-environment-key": musicSecret }
    const body = '{"slt":"c:ana"}'
    yield* send(`${base}/api/v1/auth/login`, { method: "POST", headers: { ...headers, ...key }, body })
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
  })

  it("Webhooks are signed or tampered with, and take effect", function* () {
    const { act, login, stateWith } = yield* TestConsole
    const me = meOf((yield* login()).id)
    expect(arrowsOf(yield* act({ ...order, tamper: true }))).toEqual(["iam -> backend POST /webhook/ 401"])
    expect((yield* act(me)).exchange?.status).toBe(200)
    expect(bodyOf(yield* act(order))).toEqual({ received: true })
    yield* stateWith("the removal", ({ actors }) => actors[0]?.organizations.length === 0)
    expect((yield* act(me)).exchange?.status).not.toBe(200)
    expect((yield* act({ kind: "mint", plane: "production", actor: "si:deejay" })).exchange?.status).toBe(400)
    yield* act({ ...order, event: "organization.silicon.created.v1" })
    yield* login()
  })

  it("Webhooks and other actions that cannot be done are refused with what to do instead", function* () {
    const { login, refused } = yield* TestConsole
    const { id } = yield* login()
    const fault = { kind: "addFault", upstream: "iam", route: "GET /elsewhere", fault: "down", times: 1 }
    const cases: ReadonlyArray<readonly [unknown, RegExp]> = [
      [{ ...order, actor: "c:ana" }, /is about a silicon/],
      [{ ...order, actor: "si:unknown" }, /no actor si:unknown/],
      [{ ...order, org: "zenith" }, /si:deejay is not in zenith/],
      [{ ...order, actor: "c:ana", event: "session.logout.v1", org: null }, /no session at IAM/],
      [{ kind: "repeat", action: 10_000 }, /no longer kept/],
      [{ ...ting(id), org: "ämter" }, /visible ASCII/],
      [fault, /no such route/],
      [{ kind: "advanceClock", milliseconds: -1 }, /milliseconds/],
      [{ kind: "refresh", session: id, more: true }, /more/]
    ]
    for (const [action, reason] of cases) {
      const refusal = yield* refused(action)
      expect(refusal.message).toMatch(reason)
      expect(refusal.hint).toMatch(/./)
    }
  })

  it.each<[FaultKind, string]>([
    ["rateLimited", "POST 429 rateLimited, GET 200, POST 201"],
    ["lost", "POST null lost, GET 200"]
  ])(
    "The arrows of an action show the fault that a call met, and the retries of the service: %s",
    function* ([fault, wanted]) {
      const { act, recordWith, stateWith } = yield* TestConsole
      const route = "POST /repos/{owner}/{repo}/issues"
      yield* act({ kind: "addFault", upstream: "tracker", route, fault, times: 1 })
      const filing = yield* act(report)
      const arrowsTo = ({ calls }: ActionRecord) =>
        calls
          .filter(({ endedAt, path }) => path === "/repos/harbor/music/issues" && endedAt !== null)
          .map((call) => `${call.method} ${call.status} ${call.fault ?? ""}`.trim())
          // A search is repeated when time passes while it waits.
          .filter((arrow, at, all) => arrow !== all[at - 1])
      for (const [index] of wanted.split(", ").entries()) {
        const seen = yield* recordWith(`call ${index}`, filing, (now) => arrowsTo(now).length > index)
        expect(wanted).toMatch(new RegExp(`^${arrowsTo(seen).join(", ")}`))
        // What waits becomes due: retries, searches, and the pause of a limit.
        yield* act({ kind: "advanceClock", milliseconds: 60_000 })
      }
      yield* stateWith("no fault", (state) => state.faults.length === 0)
    }
  )

  it("A step of the clock ends sessions, and the server lives on through 90 days", function* () {
    const { act, base, log, login, stateWith } = yield* TestConsole
    const hour = 3_600_000
    const before = log.length
    const { id } = yield* login()
    yield* act({ kind: "advanceClock", milliseconds: hour })
    yield* stateWith("an expired session", ({ sessions }) => sessions[0]?.status === "expired")
    expect((yield* act(meOf(id))).exchange?.status).toBe(401)
    expect((yield* act({ kind: "refresh", session: id })).exchange?.status).toBe(200)
    yield* act({ kind: "advanceClock", milliseconds: 90 * 24 * hour })
    expect((yield* send(`${base}/readyz`)).status).toBe(200)
    expect((yield* act(meOf((yield* login()).id))).exchange?.status).toBe(200)
    expect(log.slice(before).filter((line) => /"level":"(?:error|warn)"/.test(line))).toEqual([])
  })
})
