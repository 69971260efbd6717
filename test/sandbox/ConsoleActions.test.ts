/** Each action of the console once, over HTTP: the request, the answer and the calls that it caused; faults, webhooks and the clock. */
import { randomUUID } from "node:crypto"
import { readFileSync } from "node:fs"
import { describe, expect } from "vitest"
import type { Action, ActionRecord, FaultKind, Upstream } from "../../sandbox/console/Protocol.ts"
import { arrowOf, send, startTestConsole } from "../support/SandboxConsole.ts"
import { it } from "../world/Test.ts"

/** Of the request itself. */
const arrowsOf = ({ calls }: ActionRecord) => calls.filter(({ isLater }) => !isLater).map(arrowOf)
/** Of background delivery, those that have ended. */
const laterOf = ({ calls }: ActionRecord) =>
  calls
    .filter(({ endedAt, isLater }) => isLater && endedAt !== null)
    .map(arrowOf)
    .sort()
/** What the service itself records about a request arrives later in its own table. */
const ownRecord = "backend -> tables POST /api/ingest 200 later"
const bodyOf = ({ exchange }: ActionRecord): unknown => JSON.parse(exchange?.responseBody ?? "null")

const message = "Playback stops after a seek."
const nobody = { session: null, org: null }
const report = { kind: "report", ...nobody, message } as const
const telemetry = {
  kind: "telemetry",
  ...nobody,
  table: "musicclidaemon",
  type: "t",
  data: '{"track":1}'
} as const
const ting = (session: string, key = "si:deejay/first") =>
  ({ kind: "ting", session, org: "acme", type: "music.trigger.fired", key, data: '{"a":1}' }) as const

describe("An action of the console shows its request, the answer and the calls that it caused:", () => {
  it.scopedLive("mint, login, me", function* () {
    const { act, base, recordWith, stateWith, world } = yield* startTestConsole
    const minted = yield* act({ kind: "mint", plane: "production", actor: "si:deejay" })
    const requestBody = '{"plane":"production","actor":"si:deejay"}'
    const exchange = { method: "POST", url: `${world.iam.url}/_sandbox/slt`, requestBody, status: 201 }
    expect(minted).toMatchObject({ title: "Get an SLT for si:deejay", exchange })
    const { slt } = bodyOf(minted) as { slt: string }
    const login = yield* act({ kind: "login", plane: "production", slt })
    expect(login.exchange).toMatchObject({
      url: `${base}/api/v1/auth/login`,
      status: 200,
      requestHeaders: { "idempotency-key": expect.stringMatching(/^login-.{36}$/), "x-music-source": "cli" }
    })
    // The list of endpoints is fetched beside the introspection, and may come before it.
    const catalogue = "backend -> iam GET /api/v1/obo-access/applications/ting/endpoints 200"
    expect(arrowsOf(login)).toContain(catalogue)
    expect(arrowsOf(login).filter((arrow) => arrow !== catalogue)).toEqual([
      "console -> backend POST /api/v1/auth/login 200",
      "backend -> iam POST /api/v1/app-auth/tokens 200",
      "backend -> iam POST /api/v1/oauth/introspect 200",
      "backend -> iam POST /api/v1/obo-access/exchanges 201",
      "backend -> ting POST /v1/subscriptions 201",
      "ting -> iam POST /api/v1/obo-access/verify 200"
    ])
    yield* recordWith("the service's own record", login, (record) => laterOf(record).includes(ownRecord))
    const { sessions, slts } = yield* stateWith("the session", (state) => state.sessions.length === 1)
    expect(slts.some(({ token }) => token === slt)).toBe(false)
    const session = { plane: "production", actor: "si:deejay", organizations: ["acme"], status: "active" }
    expect(sessions[0]).toMatchObject({ ...session, spentRefreshToken: null })
    const me = yield* act({ kind: "me", session: sessions[0]?.id ?? "", org: "acme" })
    const requestHeaders = { authorization: `Bearer ${sessions[0]?.accessToken}`, "x-org-id": "acme" }
    expect(me.exchange).toMatchObject({ method: "GET", requestHeaders, requestBody: null, status: 200 })
  })

  it.scopedLive("a ting and its repetition, a report and telemetry, which arrive", function* () {
    const { act, login, recordWith, stateWith, tab } = yield* startTestConsole
    const { id } = yield* login()
    const sent = yield* act(ting(id))
    expect(bodyOf(sent)).toMatchObject({ replayed: false })
    const { inbox } = yield* stateWith("the ting", (state) => state.inbox.length === 1)
    const arrived = { recipient: "si:deejay", org: "acme", key: "si:deejay/first", data: { a: 1 } }
    expect(inbox[0]).toMatchObject({ plane: "production", type: "music.trigger.fired", ...arrived })
    const again = yield* act({ kind: "repeat", action: sent.id })
    expect(again.title).toBe("Repeat: Send a ting to si:deejay")
    expect(again.exchange?.requestBody).toBe(sent.exchange?.requestBody)
    expect(bodyOf(again)).toMatchObject({ replayed: true })

    const first = yield* act({ ...report, session: id, org: "acme" })
    const filed = yield* recordWith("both deliveries", first, (record) => laterOf(record).length === 2)
    expect(laterOf(filed)).toEqual([
      ownRecord,
      "backend -> tracker POST /repos/harbor/music/issues 201 later"
    ])
    const owners = filed.calls.map(({ isOwn, to }) => `${to} ${isOwn}`).sort()
    expect(owners).toEqual(["backend false", "iam false", "tables true", "tracker false"])
    const { id: reportId } = bodyOf(first) as { id: string }
    // A report that names another does not take its issue.
    const text = `See ${reportId} and report-ref: ${reportId}-0123456789abcdef.`
    const other = yield* act({ ...report, message: text })
    const posts = ({ calls }: ActionRecord) =>
      calls.filter(({ method, to }) => method === "POST" && to === "tracker").length
    yield* recordWith("the other report's issue", other, (record) => posts(record) === 1)
    expect(posts(tab.actions.get(first.id) ?? first)).toBe(1)

    const event = yield* act(telemetry)
    expect(event.exchange).toMatchObject({ status: 204, requestHeaders: { "x-music-source": "daemon" } })
    const shipped = yield* recordWith("the row", event, ({ calls }) =>
      calls.some(({ isOwn, to }) => to === "tables" && !isOwn)
    )
    expect(arrowsOf(shipped)).toEqual(["console -> backend POST /api/v1/telemetry 204"])
    const { issues, rows } = yield* stateWith(
      "the issues and the row",
      (state) => state.issues.length === 2 && state.rows.some(({ table }) => table === "musicclidaemon")
    )
    expect(issues[1]).toMatchObject({ title: `[report] ${message}`, state: "open" })
    const { events } = JSON.parse(event.exchange?.requestBody ?? "") as { events: [{ id: string }] }
    const row = { recordId: events[0].id, record: { type: "t", data: { track: 1 } } }
    expect(rows.find(({ table }) => table === "musicclidaemon")).toMatchObject(row)
  })

  it.scopedLive("a caller without a session is in the chosen plane", function* () {
    const { act, stateWith, world } = yield* startTestConsole
    const { environmentId: plane, musicSecret } = world.seeded.environment
    const sent = [yield* act({ ...report, plane }), yield* act({ ...telemetry, plane })]
    for (const { exchange } of sent)
      expect(exchange?.requestHeaders).toMatchObject({ "x-testing-environment-key": musicSecret })
    expect(sent.map(({ exchange }) => exchange?.status)).toEqual([200, 204])
    // What was sent before would be there, too: reports are filed in order.
    yield* act({ ...report, message: "Playback stops at its end." })
    const { issues, rows } = yield* stateWith("the issue of production", (state) => state.issues.length > 0)
    expect(issues.map(({ title }) => title)).toEqual(["[report] Playback stops at its end."])
    expect(rows.filter(({ table }) => table === "musicclidaemon")).toEqual([])
  })

  it.scopedLive("refresh, replay, reuse, logout", function* () {
    const { act, login, refused, stateWith, tab } = yield* startTestConsole
    const first = yield* login()
    const session = first.id
    const early = yield* refused({ kind: "replayRefresh", session })
    expect(early).toEqual({ message: "The session has no spent refresh token", hint: "refresh it first" })
    const refresh = yield* act({ kind: "refresh", session })
    const after = yield* stateWith(
      "the new pair",
      ({ sessions }) => sessions[0]?.spentRefreshToken === first.refreshToken
    )
    const replay = yield* act({ kind: "replayRefresh", session })
    const keyOf = ({ exchange }: ActionRecord) => exchange?.requestHeaders["idempotency-key"]
    expect(keyOf(replay)).toBe(keyOf(refresh))
    expect(bodyOf(replay)).toMatchObject({ refresh_token: after.sessions[0]?.refreshToken })
    // A repeated login answers with its own pair, which is spent.
    const logins = [...tab.actions.values()].filter(({ action }) => action.kind === "login")
    const again = yield* act({ kind: "repeat", action: logins[0]?.id ?? 0 })
    expect(bodyOf(again)).toMatchObject({ refresh_token: first.refreshToken })
    expect((yield* act({ kind: "reuseRefresh", session })).exchange?.status).toBe(401)
    yield* stateWith("the compromise", ({ sessions }) => sessions[0]?.status === "compromised")
    const second = yield* login("c:ana")
    expect(second.organizations).toEqual(["acme", "zenith"])
    expect((yield* act({ kind: "logout", session: second.id })).exchange?.status).toBe(204)
    yield* stateWith("the end", ({ sessions }) => sessions[0]?.status === "ended")
  })

  it.scopedLive("in a testing plane, with its key and without a minted token", function* () {
    const { act, stateWith, tab, world } = yield* startTestConsole
    const { environmentId: plane, musicSecret: key } = world.seeded.environment
    expect(tab.state?.planes).toMatchObject([{ key: null }, { id: plane, name: "music e2e", key }])
    const login = yield* act({ kind: "login", plane, slt: "si:lyra" })
    const requestHeaders = { "x-testing-environment-key": key }
    expect(login).toMatchObject({ title: "Log in as si:lyra", exchange: { status: 200, requestHeaders } })
    expect(arrowsOf(login)[1]).toBe("backend -> iam GET /api/v1/application/testing-context 200")
    const { sessions } = yield* stateWith("its session", (state) => state.sessions.length === 1)
    const me = yield* act({ kind: "me", session: sessions[0]?.id ?? "", org: "acme" })
    expect(me.exchange?.status).toBe(200)
  })
})

describe("Webhooks", () => {
  const order = {
    kind: "webhook",
    plane: "production",
    event: "organization.silicon.removed.v1",
    actor: "si:deejay",
    org: "acme",
    tamper: false
  } as const

  it.scopedLive("are signed or tampered with, and take effect", function* () {
    const { act, login, refused, stateWith } = yield* startTestConsole
    const me = { kind: "me", session: (yield* login()).id, org: "acme" } as const
    const forged = yield* act({ ...order, tamper: true })
    expect(arrowsOf(forged)).toEqual(["iam -> backend POST /webhook/ 401"])
    expect((yield* act(me)).exchange?.status).toBe(200)
    const removal = yield* act(order)
    const signature = { "x-silicon-iam-signature": expect.stringMatching(/^v1=[0-9a-f]{64}$/) }
    expect(removal.exchange?.requestHeaders).toMatchObject(signature)
    expect(bodyOf(removal)).toEqual({ received: true })
    yield* stateWith("the removal", ({ actors }) => actors[0]?.organizations.length === 0)
    expect((yield* act(me)).exchange?.status).not.toBe(200)
    const reason = yield* refused({ kind: "mint", plane: "production", actor: "si:deejay" })
    const hint = expect.stringContaining("organization.silicon.created.v1")
    expect(reason).toMatchObject({ message: "si:deejay is in no organisation, so it cannot log in", hint })
    yield* act({ ...order, event: "organization.silicon.created.v1" })
    yield* login()
  })

  it.scopedLive("are all of the contract, accepted in both planes", function* () {
    const { act, login, stateWith, tab } = yield* startTestConsole
    const contract = readFileSync(
      new URL("../../docs/contracts/identity-service.md", import.meta.url),
      "utf8"
    )
    const [, table = ""] = /\| Event \| Meaning \|.*\n([\s\S]*?)\n\n/.exec(contract) ?? []
    const names = table.split("\n").flatMap((row) => (row.split("|")[1] ?? "").match(/[a-z_.*]+\.v1/g) ?? [])
    const events = tab.state?.webhookEvents ?? []
    // The contract leaves the names of the application's own events open.
    const known = (name: string) =>
      events.some(({ type }) => type.endsWith(name.replace("application.*", "application.updated")))
    expect(names.filter((name) => !known(name))).toEqual([])
    expect(events).toHaveLength(names.length)
    for (const { id: plane } of tab.state?.planes ?? []) {
      const session = yield* login("c:ana", plane)
      for (const { actorKind, hasOrganization, type } of events) {
        const actor = actorKind === null ? null : actorKind === "carbon" ? "c:ana" : "si:deejay"
        const sent = yield* act({ ...order, plane, event: type, actor, org: hasOrganization ? "acme" : null })
        expect([type, bodyOf(sent)]).toEqual([type, { received: true }])
      }
      // IAM's session is over, and every login that was made from it.
      yield* stateWith("the end of the session", ({ sessions }) =>
        sessions.some(({ id, status }) => id === session.id && status === "ended")
      )
    }
  })

  it.scopedLive(
    "that IAM could not send now, and other actions, are refused with what to do instead",
    function* () {
      const { act, login, refused } = yield* startTestConsole
      const { id } = yield* login()
      const created = { ...order, event: "organization.silicon.created.v1" }
      const data = "{}"
      const cases: ReadonlyArray<readonly [unknown, RegExp, RegExp]> = [
        [{ ...order, actor: "c:ana" }, /is about a silicon/, /as the actor/],
        [{ ...order, actor: "si:unknown" }, /no actor si:unknown/, /list/],
        [{ ...order, actor: null }, /is about a silicon/, /as the actor/],
        [{ ...order, org: "elsewhere" }, /no organisation elsewhere/, /list/],
        [{ ...order, org: "zenith" }, /si:deejay is not in zenith/, /organization\.silicon\.created\.v1/],
        [
          { ...created, org: "zenith" },
          /a Silicon has one organisation/,
          /organization\.silicon\.removed\.v1/
        ],
        [{ ...order, plane: "elsewhere" }, /plane is not known/, /list/],
        [
          { ...order, actor: "c:ana", event: "session.logout.v1", org: null },
          /no session at IAM/,
          /get an SLT for c:ana/
        ],
        [{ kind: "me", session: randomUUID(), org: "acme" }, /session is not known/, /./],
        [{ kind: "login", plane: "elsewhere", slt: "si:deejay" }, /plane is not known/, /./],
        [{ kind: "repeat", action: 10_000 }, /no longer kept/, /./],
        [{ ...ting(id), data: "{" }, /not JSON/, /./],
        [{ ...ting(id), data: `${"[".repeat(32_000)}${"]".repeat(32_000)}` }, /nests too deep/, /./],
        [{ ...ting(id), org: "", data }, /si:deejay is in no organisation/, /./],
        [{ ...ting(id), org: "ämter", data }, /visible ASCII/, /./],
        [{ ...ting(id), type: "", data }, /0 characters, and may have 1 to 255/, /./],
        [{ ...report, session: id }, /needs an organisation/, /./],
        [
          { kind: "addFault", upstream: "iam", route: "GET /elsewhere", fault: "down", times: 1 },
          /no such route/,
          /./
        ],
        [{ kind: "removeFault", fault: 7 }, /has ended/, /./],
        [{ kind: "advanceClock", milliseconds: -1 }, /milliseconds/, /./],
        [{ kind: "advanceClock", milliseconds: 91 * 86_400_000 }, /milliseconds/, /./],
        [{ kind: "explode" }, /kind/, /./],
        [{ kind: "refresh", session: id, more: true }, /more/, /./],
        [[], /./, /./]
      ]
      for (const [action, reason, hint] of cases) {
        const refusal = yield* refused(action)
        expect(refusal.message).toMatch(reason)
        expect(refusal.hint).toMatch(hint)
      }
      // A forged arrival where the actor never was is sent.
      yield* act(order)
      expect((yield* act({ ...created, org: "zenith", tamper: true })).exchange?.status).toBe(401)
    }
  )
})

/** For each upstream: a route, an action that calls it, and what becomes of each fault that the first call meets. */
const faults: ReadonlyArray<
  readonly [Upstream, string, (session: string, key: string) => Action, Readonly<Record<FaultKind, string>>]
> = [
  [
    "iam",
    "POST /api/v1/obo-access/exchanges",
    ting,
    {
      down: "POST null down, POST 201",
      slow: "POST 201 slow",
      rateLimited: "POST 429 rateLimited",
      lost: "POST null lost, POST 201"
    }
  ],
  [
    "ting",
    "POST /v1/tings",
    ting,
    {
      down: "POST null down, POST 202",
      slow: "POST 202 slow",
      rateLimited: "POST 429 rateLimited",
      lost: "POST null lost, POST 200"
    }
  ],
  [
    "tables",
    "POST /api/ingest",
    () => telemetry,
    {
      down: "POST null down, POST 200",
      slow: "POST 200 slow",
      rateLimited: "POST 429 rateLimited, POST 200",
      lost: "POST null lost, POST 200"
    }
  ],
  [
    "tracker",
    "POST /repos/harbor/music/issues",
    () => report,
    {
      // The issue is searched for three times before the report is sent again.
      down: "POST null down, GET 200, GET 200, GET 200, POST 201",
      slow: "POST 201 slow",
      rateLimited: "POST 429 rateLimited, GET 200, POST 201",
      lost: "POST null lost, GET 200"
    }
  ]
]

describe.concurrent("The arrows of an action show the fault that a call met, and the retries of the service:", () => {
  it.scopedLive.each(faults)("%s", function* ([upstream, route, action, expected]) {
    const { act, login, recordWith, stateWith } = yield* startTestConsole
    const { id } = yield* login()
    const callsTo = ({ calls }: ActionRecord) =>
      calls.filter(({ endedAt, path }) => route.endsWith(` ${path}`) && endedAt !== null)
    for (const fault of ["down", "slow", "rateLimited", "lost"] as const) {
      yield* act({ kind: "addFault", upstream, route, fault, times: 1 })
      const { faults: active } = yield* stateWith("the fault", (state) => state.faults.length === 1)
      expect(active[0]).toMatchObject({ upstream, route, fault, left: 1 })
      const record = yield* act(action(id, `si:deejay/${fault}`))
      const wanted = expected[fault].split(", ")
      for (let count = 1; count <= wanted.length; count += 1) {
        const seen = yield* recordWith(
          `${count} after ${fault}`,
          record,
          (now) => callsTo(now).length >= count
        )
        const arrows = callsTo(seen).map(({ fault: met, method, status }) =>
          `${method} ${status} ${met ?? ""}`.trim()
        )
        expect(arrows).toEqual(wanted.slice(0, arrows.length))
        const [first] = callsTo(seen)
        if (fault === "slow") expect((first?.endedAt ?? 0) - (first?.startedAt ?? 0)).toBeGreaterThan(2_900)
        // What waits becomes due: retries, searches, and the pause of a limit.
        yield* act({ kind: "advanceClock", milliseconds: 60_000 })
      }
      yield* stateWith("no fault", (state) => state.faults.length === 0)
    }
  })

  it.scopedLive("one of every route lasts until it is removed", function* () {
    const { act, login, stateWith } = yield* startTestConsole
    const me = { kind: "me", session: (yield* login()).id, org: "acme" } as const
    yield* act({ kind: "addFault", upstream: "iam", route: null, fault: "down", times: null })
    const { faults: active } = yield* stateWith("the fault", (state) => state.faults.length === 1)
    const failed = yield* act(me)
    expect(failed.exchange?.status).toBe(503)
    const met = "backend -> iam POST /api/v1/oauth/introspect null down"
    expect(failed.calls.slice(1).map(arrowOf)).toEqual([met, met, met])
    const removed = yield* act({ kind: "removeFault", fault: active[0]?.id ?? 0 })
    expect(removed.title).toBe("Remove: IAM is down")
    expect((yield* act(me)).exchange?.status).toBe(200)
  })
})

describe("A step of the clock", () => {
  it.scopedLive("ends sessions, and the server lives on through a day and through 90 days", function* () {
    const { act, base, log, login, stateWith } = yield* startTestConsole
    const [hour, day] = [3_600_000, 86_400_000]
    const first = yield* login()
    yield* act({ kind: "advanceClock", milliseconds: hour })
    yield* stateWith("an expired session", ({ sessions }) => sessions[0]?.status === "expired")
    const me = { kind: "me", session: first.id, org: "acme" } as const
    expect((yield* act(me)).exchange?.status).toBe(401)
    expect((yield* act({ kind: "refresh", session: first.id })).exchange?.status).toBe(200)
    expect((yield* act(me)).exchange?.status).toBe(200)
    for (const milliseconds of [day, 90 * day]) {
      yield* act({ kind: "advanceClock", milliseconds })
      expect((yield* send(`${base}/readyz`)).status).toBe(200)
      const session = yield* login()
      expect((yield* act({ ...me, session: session.id })).exchange?.status).toBe(200)
    }
    const { sessions } = yield* stateWith("both steps", ({ clockOffset }) => clockOffset === hour + 91 * day)
    expect(sessions.map(({ status }) => status)).toEqual(["active", "expired", "expired"])
    expect(log.filter((line) => /"level":"(?:error|warn)"/.test(line))).toEqual([])
  })
})
