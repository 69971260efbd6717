/** Calls to a real server over simulated upstreams, in this process or as one of its own. */
import { randomUUID } from "node:crypto"
import { assert } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import { Effect } from "effect"
import { call, type Exchange, expectJson, textOf } from "../../sandbox/HttpExchange.ts"
import { production } from "../../sandbox/upstreams/Iam.ts"
import { mintSlt, type SimulatedUpstreams } from "../../sandbox/SimulatedUpstreams.ts"
import { keyed, post, requests, type Sent } from "../world/Driver.ts"
import { awaited, eventually } from "../world/Waiting.ts"
import { brokenSums, type ReadNumber } from "./Databases.ts"

/** A server that is called, and its upstreams. */
export interface Target {
  readonly world: SimulatedUpstreams
  readonly base: string
}

export interface Server extends Target {
  /** One JSON text a line. */
  readonly log: ReadonlyArray<string>
}

/** About 45 KB: more than the free space in the pages of a full database. */
const longText = "The player stops after a seek near the end of a track. ".repeat(820)

const ask = ({ base }: Pick<Target, "base">, { path, ...sent }: Sent) =>
  call(`${base}${path}`, { ...sent, body: sent.body?.toString() })

export const login = (target: Target) => ask(target, requests.login(mintSlt(target.world), randomUUID()))

/** A login that is at IAM, which does not answer. */
export const loginInFlight = (target: Target) =>
  Effect.gen(function* () {
    const path = "/api/v1/app-auth/tokens"
    const asked = () => target.world.iam.seen.filter((seen) => seen.path === path).length
    const before = asked()
    target.world.iam.fail({ path, fault: { kind: "hang" } })
    const answer = yield* Effect.fork(login(target))
    yield* eventually("the login at IAM", () => asked() > before)
    return answer
  })

/** Headers of a caller who has logged in. */
export const signIn = (target: Target) =>
  Effect.gen(function* () {
    const session = yield* expectJson(yield* login(target), 200)
    return { authorization: `Bearer ${yield* textOf(session, "access_token")}`, "x-org-id": "acme" }
  })

export const report = (target: Pick<Target, "base">, key: string = randomUUID()) => {
  const attachments = [{ name: "player.log", content: longText }]
  return ask(target, post("/api/v1/reports", { message: "The player stops.", attachments }, keyed(key)))
}

export const telemetry = (target: Pick<Target, "base">) =>
  ask(target, requests.telemetry([{ id: randomUUID(), text: longText }]))

const webhook = (target: Target) => {
  const { buildWebhook, events } = target.world.iam.controls
  const made = buildWebhook(production, events.membershipUpdated(production, "si:lyra", "acme"))
  return ask(target, { method: "POST", path: "/webhook/", ...made })
}

/** The answers of a healthy server, like `503 dependency_unavailable database`. */
export const healthy = {
  ...{ healthz: "200", readyz: "200", openapi: "200", version: "200", iam: "200", login: "200" },
  ...{ refresh: "200", logout: "204", me: "200", subscription: "200", ting: "200", report: "200" },
  ...{ telemetry: "204", webhook: "200" }
}
export type Round = typeof healthy

const said = ({ status, text }: Exchange): string => {
  const code = /"code":"([a-z_]+)"/.exec(text)?.[1]
  const about = /"dependency":"([a-z_]+)"/.exec(text)?.[1] ?? /"database":"failed"/.exec(text)?.[0]
  // The document is full of codes.
  return (status === 200 ? [status] : [status, code, about]).filter((part) => part !== undefined).join(" ")
}

/** Milliseconds for which readiness answers with the result of an earlier probe. */
const sharedProbe = 1_000

/** Every call once, and the milliseconds of the slowest one. Readiness comes last, because it also reports writes that failed. */
export const everyCall = (target: Target, signed: Readonly<Record<string, string>>) =>
  Effect.gen(function* () {
    let slowest = 0
    const timed = <E>(exchange: Effect.Effect<Exchange, E>) =>
      Effect.tap(exchange, ({ took }) =>
        Effect.sync(() => {
          slowest = Math.max(slowest, took)
        })
      )
    const asked = <E>(exchange: Effect.Effect<Exchange, E>) => Effect.map(timed(exchange), said)
    const get = (path: string, headers = {}) => asked(ask(target, { path, headers }))

    const session = Effect.gen(function* () {
      const loggedIn = yield* timed(login(target))
      const token = yield* textOf(yield* expectJson(loggedIn, 200), "refresh_token")
      const refreshed = yield* timed(ask(target, requests.refresh(token, randomUUID())))
      const rotated = yield* textOf(yield* expectJson(refreshed, 200), "refresh_token")
      const logout = yield* asked(ask(target, requests.logout(rotated, randomUUID())))
      return { login: said(loggedIn), refresh: said(refreshed), logout }
    })
    const ting = { type: "music.trigger.fired", key: `si:deejay/${randomUUID()}`, data: {} }
    const signedPost = (path: string, body: object) => asked(ask(target, post(path, body, signed)))
    const { session: sessionCalls, ...others } = yield* Effect.all(
      {
        session,
        healthz: get("/healthz"),
        openapi: get("/openapi.json"),
        version: get("/api/v1/version"),
        iam: get("/api/v1/iam"),
        me: get("/api/v1/auth/me", signed),
        subscription: signedPost("/api/v1/ting/subscription", {}),
        ting: signedPost("/api/v1/tings", ting),
        report: asked(report(target)),
        telemetry: asked(telemetry(target)),
        webhook: asked(webhook(target))
      },
      { concurrency: "unbounded" }
    )
    const calls = { ...others, ...sessionCalls }
    if (Object.values(calls).some((answer) => answer.startsWith("503"))) yield* Effect.sleep(sharedProbe)
    const round: Round = { ...calls, readyz: yield* get("/readyz") }
    return { round, slowest }
  })

/** Every call, answered like this. */
export const expectRound = (target: Target, signed: Readonly<Record<string, string>>, says = healthy) =>
  Effect.map(everyCall(target, signed), ({ round }) => deepStrictEqual(round, says))

const refused = "503 dependency_unavailable database"

/** The database can be read, not written. */
export const unwritable: Round = {
  ...healthy,
  readyz: '503 not_ready "database":"failed"',
  report: refused,
  telemetry: refused,
  webhook: refused
}

/** The database does not answer: calls that need only upstreams work. */
export const away: Round = { ...unwritable, me: refused }

export const issues = ({ world }: Pick<Target, "world">) => world.tracker.issues("harbor/music").length
export const shipped = ({ world }: Pick<Target, "world">) => world.tables.rows("musicclidaemon").length

/** Waits until so many reports are filed. */
export const filed = (target: Pick<Target, "world">, count: number) =>
  eventually(`${count} issues`, () => issues(target) === count)

/** Checks that the database holds exactly what was acknowledged, with consistent sums. */
export const keptWhole = (
  readNumber: ReadNumber,
  acknowledged: { readonly reports: number; readonly events: number }
) =>
  Effect.gen(function* () {
    deepStrictEqual(
      {
        reports: yield* readNumber("SELECT COUNT(*) FROM reports"),
        deliveries: yield* readNumber("SELECT COUNT(*) FROM deliveries WHERE kind = 'report'"),
        events: yield* readNumber("SELECT accepted FROM spool_counts WHERE table_name = 'musicclidaemon'"),
        broken: yield* readNumber(brokenSums)
      },
      { ...acknowledged, deliveries: acknowledged.reports, broken: 0 }
    )
  })

export const untilReady = ({ base }: Target, wanted = 200) =>
  awaited(`readiness ${wanted}`, call(`${base}/readyz`), ({ status }) => status === wanted)

/** Waits until the server is ready, then checks every call. */
export const expectRecovery = (target: Target, signed: Readonly<Record<string, string>>) =>
  Effect.zipRight(untilReady(target), expectRound(target, signed))

export interface Fault {
  readonly begin: Effect.Effect<unknown, unknown>
  readonly end: Effect.Effect<unknown, unknown>
  readonly says: Round
  /** In the log. */
  readonly reason: RegExp
  readonly readNumber: ReadNumber
}

/** Milliseconds: below the deadline of a request, 25 s. A login makes two writes that may time out. */
const promptly = 20_000

/**
 * Breaks the database of a running server, makes every call, repairs the database, and makes every call again. The server
 * runs all the time, so its workers meet the fault as well.
 */
export const outage = (server: Server, { begin, end, readNumber, reason, says }: Fault) =>
  Effect.gen(function* () {
    const signed = yield* signIn(server)
    yield* expectRound(server, signed)
    // Also when the test fails meanwhile: the server's end waits for the database.
    const ended = yield* Effect.cached(end)
    yield* Effect.addFinalizer(() => Effect.ignore(ended))
    yield* begin
    const { round, slowest } = yield* everyCall(server, signed)
    deepStrictEqual(round, says)
    assert.isBelow(slowest, promptly)
    const lines = server.log.filter((line) => line.includes("Database unavailable") && reason.test(line))
    assert.isNotEmpty(lines, `the log does not contain ${reason}`)
    for (const line of lines) assert.match(line, /"advice":"\w/)
    yield* ended
    yield* expectRecovery(server, signed)
    const acknowledged = says.report === "200" ? 3 : 2
    const events = says.telemetry === "204" ? 3 : 2
    yield* filed(server, acknowledged)
    yield* eventually("every row", () => shipped(server) === events)
    yield* keptWhole(readNumber, { reports: acknowledged, events })
    assert.isEmpty(server.log.filter((line) => /"code":"internal"|"level":"fatal"/.test(line)))
  })
