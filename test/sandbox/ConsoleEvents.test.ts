import { connect } from "node:net"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import type { ActionRecord } from "../../sandbox/console/Protocol.ts"
import { send, openTab, startTestConsole, type Tab } from "../support/SandboxConsole.ts"
import { awaited, eventually } from "../support/Waiting.ts"

const clock = { kind: "advanceClock", milliseconds: 1 } as const

const hasAll = (tab: Tab, records: ReadonlyArray<ActionRecord>) =>
  eventually(
    "all actions",
    () => records.every(({ id }) => tab.actions.get(id)?.endedAt !== undefined),
    () => tab.events.join(" ")
  )

describe("The stream of events", () => {
  it.scopedLive(
    "starts with the state and all kept actions, oldest first, in each tab and after a reconnect",
    function* () {
      const { act, tab, url } = yield* startTestConsole
      expect(tab.events).toEqual(["state"])
      const records = [yield* act(clock), yield* act(clock)]
      yield* hasAll(tab, records)
      const second = yield* openTab(url)
      yield* hasAll(second, records)
      expect(second.events).toEqual(["state", "action", "action"])
      expect([...second.actions.keys()]).toEqual(records.map(({ id }) => id))
      tab.close()
      const third = yield* act(clock)
      yield* hasAll(second, [third])
      const again = yield* openTab(url)
      yield* hasAll(again, [...records, third])
      expect([...again.actions.values()]).toEqual([...second.actions.values()])
    }
  )

  it.scopedLive("shows an action while it lasts, and again when it has ended", function* () {
    const { act, recordWith, tab } = yield* startTestConsole
    yield* act({
      kind: "addFault",
      upstream: "iam",
      route: "POST /api/v1/app-auth/tokens",
      fault: "slow",
      times: 1
    })
    const login = yield* Effect.fork(act({ kind: "login", plane: "production", slt: "oac_invented" }))
    yield* eventually("the beginning", () =>
      [...tab.actions.values()].some(({ endedAt }) => endedAt === null)
    )
    const record = yield* login
    expect(record.exchange?.status).toBe(401)
    yield* recordWith("the end", record, ({ endedAt }) => endedAt !== null)
  })

  it.scopedLive("a tab that reads nothing delays neither actions nor other tabs", function* () {
    const { act, tab, url } = yield* startTestConsole
    const { hostname, port } = new URL(url)
    const stuck = yield* Effect.acquireRelease(
      Effect.sync(() => connect(Number(port), hostname)),
      (socket) => Effect.sync(() => socket.destroy())
    )
    stuck.pause()
    stuck.write(`GET /events HTTP/1.1\r\nHost: ${hostname}:${port}\r\n\r\n`)
    // More than the buffers of the sockets hold.
    const data = JSON.stringify({ text: "x".repeat(60_000) })
    for (let count = 0; count < 120; count += 1)
      yield* act({
        kind: "telemetry",
        session: null,
        org: null,
        table: "musicclidaemon",
        type: "t",
        data
      })
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
  it.scopedLive("32 tabs at the same time, and one more is told to close some", function* () {
    const { tab, url } = yield* startTestConsole
    for (let count = 1; count < 32; count += 1) yield* openTab(url)
    const refused = yield* send(`${url}/events`)
    expect(refused.status).toBe(503)
    expect(JSON.parse(refused.text)).toEqual({
      message: "Too many tabs are open",
      hint: "close some, and reload this one"
    })
    tab.close()
    yield* awaited(
      "room for another tab",
      Effect.promise(async () => {
        const stop = new AbortController()
        const { status } = await fetch(`${url}/events`, { signal: stop.signal })
        stop.abort()
        return status
      }),
      (status) => status === 200
    )
  })

  it.scopedLive("the newest 200 actions and 100 entries of a list, and long texts are cut", function* () {
    const { act, stateWith, tab, url, world } = yield* startTestConsole
    const report = yield* act({
      kind: "report",
      session: null,
      org: null,
      message: "x".repeat(20_000)
    })
    expect(report.exchange?.requestBody?.length).toBeLessThan(21_000)
    expect(report.exchange?.isCut).toBe(false)
    const long = yield* act({ kind: "report", session: null, org: null, message: "\n".repeat(60_000) })
    expect(long.exchange).toMatchObject({
      isCut: true,
      requestBody: expect.stringMatching(/\[cut: \d+ bytes/)
    })
    const { issues } = yield* stateWith("the issue", (state) => state.issues.length === 1)
    expect(issues[0]?.body).toMatch(/… \[cut: \d+ bytes in all\]$/)
    for (let count = 0; count < 120; count += 1)
      yield* act({ kind: "mint", plane: "production", actor: "si:lyra" })
    const { slts } = yield* stateWith("120 tokens", (state) => state.slts.length >= 100)
    expect(slts).toHaveLength(100)
    let last = 0
    for (let count = 0; count < 120; count += 1) last = (yield* act(clock)).id
    yield* eventually("the last action", () => tab.actions.has(last))
    const fresh = yield* openTab(url)
    yield* eventually("the kept actions", () => fresh.actions.has(last))
    expect(fresh.actions.size).toBe(200)
    expect(Math.min(...fresh.actions.keys())).toBe(last - 199)
    expect(world.iam.seen.length).toBeLessThanOrEqual(1_000)
  })
})
