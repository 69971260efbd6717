import { randomUUID } from "node:crypto"
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import type { ActionRecord } from "../../sandbox/console/Protocol.ts"
import { arrowOf, startTestConsole } from "../support/SandboxConsole.ts"

/** Of the request itself. */
const arrowsOf = ({ calls }: ActionRecord): ReadonlyArray<string> =>
  calls.filter(({ isLater }) => !isLater).map(arrowOf)

/** Of background delivery, those that have ended. */
const laterArrowsOf = ({ calls }: ActionRecord): ReadonlyArray<string> =>
  calls
    .filter(({ endedAt, isLater }) => isLater && endedAt !== null)
    .map(arrowOf)
    .sort()

/** What the service itself records about a request arrives later in its own table. */
const ownRecord = "backend -> tables POST /api/ingest 200 later"

const bodyOf = ({ exchange }: ActionRecord): unknown => JSON.parse(exchange?.responseBody ?? "null")

/** Names of the events that an application can receive, as the contract writes them (11.5): some only by their end. */
const contractEvents = (): ReadonlyArray<string> => {
  const contract = readFileSync(new URL("../../docs/contracts/identity-service.md", import.meta.url), "utf8")
  const [, table = ""] = /\| Event \| Meaning \|.*\n([\s\S]*?)\n\n/.exec(contract) ?? []
  return table.split("\n").flatMap((row) => (row.split("|")[1] ?? "").match(/[a-z_.*]+\.v1/g) ?? [])
}

/** The part of the untyped driver that is used here. */
interface Driver {
  new (
    path: string,
    options: { readonly readonly: boolean }
  ): {
    readonly prepare: (statement: string) => { readonly all: () => ReadonlyArray<{ readonly type: string }> }
    readonly close: () => void
  }
}

/** The types of the events that the service recorded, sorted. */
const recordedEvents = (databasePath: string): ReadonlyArray<string> => {
  const Sqlite = createRequire(import.meta.url)("better-sqlite3") as Driver
  const database = new Sqlite(databasePath, { readonly: true })
  const rows = database.prepare("SELECT event_type AS type FROM webhook_inbox").all()
  database.close()
  return rows.map(({ type }) => type).sort()
}

describe("An action of the console shows its request, the answer and the calls that it caused:", () => {
  it.scopedLive("mint, login, me", function* () {
    const { act, base, recordWith, stateWith, world } = yield* startTestConsole
    const minted = yield* act({ kind: "mint", plane: "production", actor: "si:deejay" })
    expect(minted).toMatchObject({
      title: "Get an SLT for si:deejay",
      exchange: {
        method: "POST",
        url: `${world.iam.url}/_sandbox/slt`,
        requestBody: '{"plane":"production","actor":"si:deejay"}',
        status: 201
      }
    })
    expect(arrowsOf(minted)).toEqual(["console -> iam POST /_sandbox/slt 201"])
    const { slt } = bodyOf(minted) as { slt: string }
    yield* stateWith("the token", ({ slts }) => slts.some(({ token }) => token === slt))

    const login = yield* act({ kind: "login", plane: "production", slt })
    expect(login.title).toBe("Log in as si:deejay")
    expect(login.exchange).toMatchObject({
      method: "POST",
      url: `${base}/api/v1/auth/login`,
      status: 200,
      requestHeaders: {
        "content-type": "application/json",
        "idempotency-key": expect.stringMatching(/^login-.{36}$/),
        "x-music-source": "cli"
      }
    })
    expect(bodyOf(login)).toMatchObject({ token_type: "Bearer", ting: { subscribed: true } })
    const loginCalls = [
      "console -> backend POST /api/v1/auth/login 200",
      "backend -> iam POST /api/v1/app-auth/tokens 200",
      "backend -> iam POST /api/v1/oauth/introspect 200",
      "backend -> iam POST /api/v1/obo-access/exchanges 201",
      "backend -> ting POST /v1/subscriptions 201",
      "ting -> iam POST /api/v1/obo-access/verify 200"
    ]
    // The list of endpoints is fetched beside the introspection, and may come before it.
    const catalogue = "backend -> iam GET /api/v1/obo-access/applications/ting/endpoints 200"
    expect(arrowsOf(login)).toContain(catalogue)
    expect(arrowsOf(login).filter((arrow) => arrow !== catalogue)).toEqual(loginCalls)
    yield* recordWith("the service's own record", login, (record) =>
      laterArrowsOf(record).includes(ownRecord)
    )
    for (const { endedAt, startedAt } of login.calls) expect(endedAt ?? 0).toBeGreaterThanOrEqual(startedAt)

    const { sessions, slts } = yield* stateWith("the session", (state) => state.sessions.length === 1)
    expect(slts.some(({ token }) => token === slt)).toBe(false)
    expect(sessions[0]).toMatchObject({
      plane: "production",
      actor: "si:deejay",
      organizations: ["acme"],
      status: "active",
      spentRefreshToken: null
    })
    const me = yield* act({ kind: "me", session: sessions[0]?.id ?? "", org: "acme" })
    expect(me.exchange).toMatchObject({
      method: "GET",
      url: `${base}/api/v1/auth/me`,
      requestHeaders: { authorization: `Bearer ${sessions[0]?.accessToken}`, "x-org-id": "acme" },
      requestBody: null,
      status: 200
    })
    expect(arrowsOf(me)).toEqual([
      "console -> backend GET /api/v1/auth/me 200",
      "backend -> iam POST /api/v1/oauth/introspect 200"
    ])
  })

  it.scopedLive("a ting, which arrives in the inbox, and its repetition", function* () {
    const { act, login, stateWith } = yield* startTestConsole
    const { id } = yield* login()
    const ting = yield* act({
      kind: "ting",
      session: id,
      org: "acme",
      type: "music.trigger.fired",
      key: "si:deejay/first",
      data: '{"hello":"world"}'
    })
    expect(bodyOf(ting)).toMatchObject({ replayed: false })
    expect(arrowsOf(ting)).toEqual([
      "console -> backend POST /api/v1/tings 200",
      "backend -> iam POST /api/v1/oauth/introspect 200",
      "backend -> iam POST /api/v1/obo-access/exchanges 201",
      "backend -> ting POST /v1/tings 202",
      "ting -> iam POST /api/v1/obo-access/verify 200"
    ])
    const { inbox } = yield* stateWith("the ting", (state) => state.inbox.length === 1)
    expect(inbox[0]).toMatchObject({
      plane: "production",
      recipient: "si:deejay",
      org: "acme",
      type: "music.trigger.fired",
      key: "si:deejay/first",
      data: { hello: "world" }
    })
    const again = yield* act({ kind: "repeat", action: ting.id })
    expect(again.title).toBe("Repeat: Send a ting to si:deejay")
    expect(again.exchange?.requestBody).toBe(ting.exchange?.requestBody)
    expect(bodyOf(again)).toMatchObject({ replayed: true })
    expect(arrowsOf(again)).toContain("backend -> ting POST /v1/tings 200")
  })

  it.scopedLive("a report becomes an issue, and telemetry a row, both later", function* () {
    const { act, login, recordWith, stateWith, tab } = yield* startTestConsole
    const { id } = yield* login()
    const report = yield* act({
      kind: "report",
      session: id,
      org: "acme",
      message: "Playback stops after a seek."
    })
    const filed = yield* recordWith(
      "both deliveries of the report",
      report,
      (record) => laterArrowsOf(record).length === 2
    )
    expect(arrowsOf(filed)).toEqual([
      "console -> backend POST /api/v1/reports 200",
      "backend -> iam POST /api/v1/oauth/introspect 200"
    ])
    expect(laterArrowsOf(filed)).toEqual([
      ownRecord,
      "backend -> tracker POST /repos/harbor/music/issues 201 later"
    ])
    const event = yield* act({
      kind: "telemetry",
      session: null,
      org: null,
      table: "musicclidaemon",
      type: "playback.track.started",
      data: '{"track":1}'
    })
    expect(event.exchange).toMatchObject({ status: 204, requestHeaders: { "x-music-source": "daemon" } })
    const shipped = yield* recordWith("the shipped row", event, (record) => laterArrowsOf(record).length > 0)
    expect(arrowsOf(shipped)).toEqual(["console -> backend POST /api/v1/telemetry 204"])
    expect(filed.calls.map(({ isOwn, to }) => `${to} ${isOwn}`).sort()).toEqual([
      "backend false",
      "iam false",
      "tables true",
      "tracker false"
    ])
    expect(shipped.calls.some(({ isOwn, to }) => to === "tables" && !isOwn)).toBe(true)
    const { id: reportId } = bodyOf(report) as { id: string }
    const other = yield* act({
      kind: "report",
      session: null,
      org: null,
      message: `See ${reportId} and report-ref: ${reportId}-0123456789abcdef.`
    })
    const posts = ({ calls }: ActionRecord) =>
      calls.filter(({ method, to }) => method === "POST" && to === "tracker").length
    yield* recordWith("the other report's issue", other, (record) => posts(record) === 1)
    expect(posts(tab.actions.get(report.id) ?? report)).toBe(1)
    expect(laterArrowsOf(shipped)).toContain(ownRecord)
    const { issues, rows } = yield* stateWith(
      "the issues and the row",
      (state) => state.issues.length === 2 && state.rows.some(({ table }) => table === "musicclidaemon")
    )
    expect(issues[1]).toMatchObject({
      title: "[report] Playback stops after a seek.",
      state: "open"
    })
    const sent = JSON.parse(event.exchange?.requestBody ?? "") as { events: [{ id: string }] }
    expect(rows.find(({ table }) => table === "musicclidaemon")).toMatchObject({
      recordId: sent.events[0].id,
      record: { type: "playback.track.started", data: { track: 1 } }
    })
  })

  it.scopedLive("a caller without a session is in the chosen plane", function* () {
    const { act, stateWith, world } = yield* startTestConsole
    const { environmentId: plane, musicSecret } = world.seeded.environment
    const caller = { session: null, org: null, plane }
    const report = yield* act({ kind: "report", ...caller, message: "Playback stops after a seek." })
    const event = yield* act({
      kind: "telemetry",
      ...caller,
      table: "musicclidaemon",
      type: "playback.track.started",
      data: '{"track":1}'
    })
    for (const { exchange } of [report, event])
      expect(exchange?.requestHeaders).toMatchObject({ "x-testing-environment-key": musicSecret })
    expect([report, event].map(({ exchange }) => exchange?.status)).toEqual([200, 204])
    // What was sent before would be there, too: reports are filed in order.
    yield* act({ kind: "report", session: null, org: null, message: "Playback stops at its end." })
    const { issues, rows } = yield* stateWith("the issue of production", (state) => state.issues.length > 0)
    expect(issues.map(({ title }) => title)).toEqual(["[report] Playback stops at its end."])
    expect(rows.filter(({ table }) => table === "musicclidaemon")).toEqual([])
  })

  it.scopedLive("refresh, replay, reuse, logout", function* () {
    const { act, login, refused, stateWith, tab } = yield* startTestConsole
    const first = yield* login()
    expect(yield* refused({ kind: "replayRefresh", session: first.id })).toEqual({
      message: "The session has no spent refresh token",
      hint: "refresh it first"
    })
    const refresh = yield* act({ kind: "refresh", session: first.id })
    expect(arrowsOf(refresh)).toEqual([
      "console -> backend POST /api/v1/auth/refresh 200",
      "backend -> iam POST /api/v1/app-auth/tokens 200",
      "backend -> iam POST /api/v1/oauth/introspect 200"
    ])
    const after = yield* stateWith(
      "the new pair",
      ({ sessions }) => sessions[0]?.spentRefreshToken === first.refreshToken
    )
    const replay = yield* act({ kind: "replayRefresh", session: first.id })
    expect(replay.exchange?.requestHeaders["idempotency-key"]).toBe(
      refresh.exchange?.requestHeaders["idempotency-key"]
    )
    expect(bodyOf(replay)).toMatchObject({ refresh_token: after.sessions[0]?.refreshToken })

    // A repeated login answers with its own pair, which is spent.
    const logins = [...tab.actions.values()].filter(({ action }) => action.kind === "login")
    const again = yield* act({ kind: "repeat", action: logins[0]?.id ?? 0 })
    expect(bodyOf(again)).toMatchObject({ refresh_token: first.refreshToken })

    const reuse = yield* act({ kind: "reuseRefresh", session: first.id })
    expect(reuse.exchange?.status).toBe(401)
    const compromised = yield* stateWith(
      "the compromise",
      ({ sessions }) => sessions[0]?.status === "compromised"
    )
    expect(compromised.sessions[0]?.refreshToken).toBe(after.sessions[0]?.refreshToken)

    const second = yield* login("c:ana")
    expect(second.organizations).toEqual(["acme", "zenith"])
    const logout = yield* act({ kind: "logout", session: second.id })
    expect(logout.exchange?.status).toBe(204)
    expect(arrowsOf(logout)).toEqual([
      "console -> backend POST /api/v1/auth/logout 204",
      "backend -> iam POST /api/v1/oauth/revoke 200"
    ])
    const { sessions } = yield* stateWith("the end", (state) => state.sessions[0]?.status === "ended")
    expect(sessions.map(({ actor, status }) => `${actor} ${status}`)).toEqual([
      "c:ana ended",
      "si:deejay compromised"
    ])
  })

  it.scopedLive("webhooks: signed, and tampered with", function* () {
    const { act, login, refused, stateWith } = yield* startTestConsole
    const session = yield* login()
    const order = {
      kind: "webhook",
      plane: "production",
      event: "organization.silicon.removed.v1",
      actor: "si:deejay",
      org: "acme"
    } as const
    const forged = yield* act({ ...order, tamper: true })
    expect(arrowsOf(forged)).toEqual(["iam -> backend POST /webhook/ 401"])
    expect(bodyOf(forged)).toMatchObject({ error: { code: "webhook_signature_invalid" } })
    const me = { kind: "me", session: session.id, org: "acme" } as const
    expect((yield* act(me)).exchange?.status).toBe(200)

    const removal = yield* act({ ...order, tamper: false })
    expect(removal.exchange?.requestHeaders).toMatchObject({
      "x-silicon-iam-signature": expect.stringMatching(/^v1=[0-9a-f]{64}$/)
    })
    expect(bodyOf(removal)).toEqual({ received: true })
    const { actors } = yield* stateWith("the removal", (state) =>
      state.actors.some(({ organizations }) => organizations.length === 0)
    )
    expect(actors[0]).toEqual({ plane: "production", publicId: "si:deejay", organizations: [] })
    expect((yield* act(me)).exchange?.status).not.toBe(200)
    yield* stateWith(
      "a session that reaches nothing",
      ({ sessions }) => sessions[0]?.organizations.length === 0
    )

    expect(yield* refused({ kind: "mint", plane: "production", actor: "si:deejay" })).toMatchObject({
      message: "si:deejay is in no organisation, so it cannot log in",
      hint: expect.stringContaining("organization.silicon.created.v1")
    })
    yield* act({ ...order, event: "organization.silicon.created.v1", tamper: false })
    yield* login()
  })

  it.scopedLive("every webhook of the contract, accepted and recorded in both planes", function* () {
    const { act, databasePath, login, stateWith, tab } = yield* startTestConsole
    const events = tab.state?.webhookEvents ?? []
    const types = events.map(({ type }) => type)
    // The contract leaves the names of the application's own events open.
    const names = contractEvents().map((name) => name.replace("application.*", "application.updated"))
    expect(names.filter((name) => !types.some((type) => type.endsWith(name)))).toEqual([])
    expect(types).toHaveLength(names.length)
    for (const { id: plane } of tab.state?.planes ?? []) {
      const session = yield* login("c:ana", plane)
      for (const { actorKind, hasOrganization, type } of events) {
        const actor = actorKind === null ? null : actorKind === "carbon" ? "c:ana" : "si:deejay"
        const org = hasOrganization ? "acme" : null
        const sent = yield* act({ kind: "webhook", plane, event: type, actor, org, tamper: false })
        expect([type, bodyOf(sent)]).toEqual([type, { received: true }])
      }
      // IAM's session is over, and every login that was made from it.
      yield* stateWith("the end of the session", ({ sessions }) =>
        sessions.some(({ id, status }) => id === session.id && status === "ended")
      )
    }
    expect(recordedEvents(databasePath)).toEqual([...types, ...types].sort())
  })

  it.scopedLive("no webhook that IAM could not send now, and what to do instead", function* () {
    const { act, refused } = yield* startTestConsole
    const order = {
      kind: "webhook",
      plane: "production",
      event: "organization.silicon.removed.v1",
      actor: "si:deejay",
      org: "acme",
      tamper: false
    } as const
    const refusals: ReadonlyArray<readonly [object, string, RegExp]> = [
      [{ actor: "c:ana" }, "organization.silicon.removed.v1 is about a silicon", /as the actor/],
      [{ actor: "si:unknown" }, "There is no actor si:unknown in this plane", /list/],
      [{ actor: null }, "organization.silicon.removed.v1 is about a silicon", /as the actor/],
      [{ org: "elsewhere" }, "There is no organisation elsewhere in this plane", /list/],
      [{ org: "zenith" }, "si:deejay is not in zenith", /organization\.silicon\.created\.v1/],
      [
        { org: "zenith", event: "organization.silicon.created.v1" },
        "si:deejay is in acme, and a Silicon has one organisation",
        /organization\.silicon\.removed\.v1/
      ],
      [{ plane: "elsewhere" }, "The plane is not known", /list/],
      [
        { actor: "c:ana", event: "session.logout.v1", org: null },
        "c:ana has no session at IAM",
        /get an SLT for c:ana/
      ]
    ]
    for (const [change, message, hint] of refusals)
      expect(yield* refused({ ...order, ...change })).toEqual({
        message,
        hint: expect.stringMatching(hint)
      })
    // A forged arrival where the actor never was.
    yield* act(order)
    const forged = { ...order, event: "organization.silicon.created.v1", org: "zenith", tamper: true }
    expect((yield* act(forged)).exchange?.status).toBe(401)
  })

  it.scopedLive("in a testing plane, with its key and without a minted token", function* () {
    const { act, stateWith, tab, world } = yield* startTestConsole
    const plane = world.seeded.environment.environmentId
    expect(tab.state?.planes.map(({ id, key, name }) => [id, name, key])).toEqual([
      ["production", "production", null],
      [plane, "music e2e", world.seeded.environment.musicSecret]
    ])
    const login = yield* act({ kind: "login", plane, slt: "si:lyra" })
    expect(login.title).toBe("Log in as si:lyra")
    expect(login.exchange).toMatchObject({
      status: 200,
      requestHeaders: { "x-testing-environment-key": world.seeded.environment.musicSecret }
    })
    const arrows = arrowsOf(login)
    expect(arrows[1]).toBe("backend -> iam GET /api/v1/application/testing-context 200")
    expect(arrows.filter((arrow) => arrow.startsWith("ting"))).toEqual([
      "ting -> iam GET /api/v1/application/testing-context 200",
      "ting -> iam POST /api/v1/obo-access/verify 200"
    ])
    const { sessions } = yield* stateWith("its session", (state) => state.sessions.length === 1)
    expect(sessions[0]).toMatchObject({ plane, actor: "si:lyra", status: "active" })
    const me = yield* act({ kind: "me", session: sessions[0]?.id ?? "", org: "acme" })
    expect(me.exchange?.status).toBe(200)
  })

  it.scopedLive("refuses what it cannot carry out, with the reason and what to do", function* () {
    const { login, refused } = yield* startTestConsole
    const { id } = yield* login()
    const ting = { kind: "ting", session: id, org: "acme", type: "music.trigger.fired", key: "k" }
    const cases: ReadonlyArray<readonly [unknown, RegExp]> = [
      [{ kind: "me", session: randomUUID(), org: "acme" }, /session is not known/],
      [{ kind: "login", plane: "elsewhere", slt: "si:deejay" }, /plane is not known/],
      [{ kind: "repeat", action: 10_000 }, /no longer kept/],
      [{ ...ting, data: "{" }, /not JSON/],
      [{ ...ting, data: `${"[".repeat(32_000)}${"]".repeat(32_000)}` }, /nests too deep/],
      [{ ...ting, org: "", data: "{}" }, /si:deejay is in no organisation/],
      [{ ...ting, org: "ämter", data: "{}" }, /visible ASCII/],
      [{ ...ting, org: "acme\u0000", data: "{}" }, /visible ASCII/],
      [{ ...ting, type: "", data: "{}" }, /0 characters, and may have 1 to 255/],
      [{ kind: "report", session: id, org: null, message: "m" }, /needs an organisation/],
      [
        { kind: "addFault", upstream: "iam", route: "GET /elsewhere", fault: "down", times: 1 },
        /no such route/
      ],
      [{ kind: "removeFault", fault: 7 }, /has ended/],
      [{ kind: "advanceClock", milliseconds: -1 }, /milliseconds/],
      [{ kind: "advanceClock", milliseconds: 91 * 86_400_000 }, /milliseconds/],
      [{ kind: "explode" }, /kind/],
      [{ kind: "refresh", session: id, more: true }, /more/],
      [{ kind: "refresh" }, /session/],
      [[], /./]
    ]
    for (const [action, message] of cases) {
      const refusal = yield* refused(action)
      expect(refusal.message).toMatch(message)
      expect(refusal.hint).toMatch(/\w/)
    }
  })
})
