import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { makeOffsetClock } from "../../sandbox/OffsetClock.ts"
import { arrowOf, send, startTestConsole } from "../support/SandboxConsole.ts"
import { awaited } from "../support/Waiting.ts"

const hour = 3_600_000
const day = 24 * hour

describe("A step of the clock", () => {
  it.scopedLive("ends sessions, and the server lives on through a day and through 90 days", function* () {
    const { act, base, log, login, stateWith } = yield* startTestConsole
    const first = yield* login()
    yield* act({ kind: "advanceClock", milliseconds: hour })
    yield* stateWith("an expired session", ({ sessions }) => sessions[0]?.status === "expired")
    const me = { kind: "me", session: first.id, org: "acme" } as const
    expect((yield* act(me)).exchange?.status).toBe(401)
    expect((yield* act({ kind: "refresh", session: first.id })).exchange?.status).toBe(200)
    yield* stateWith("a renewed session", ({ sessions }) => sessions[0]?.status === "active")
    expect((yield* act(me)).exchange?.status).toBe(200)
    for (const milliseconds of [day, 90 * day]) {
      yield* act({ kind: "advanceClock", milliseconds })
      expect((yield* send(`${base}/readyz`)).status).toBe(200)
      const session = yield* login()
      expect((yield* act({ ...me, session: session.id })).exchange?.status).toBe(200)
    }
    const { clockOffset, now, sessions } = yield* stateWith(
      "both steps",
      (state) => state.clockOffset === hour + 91 * day
    )
    expect(Math.abs(now - clockOffset - Date.now())).toBeLessThan(5 * 60_000)
    expect(sessions.map(({ status }) => status)).toEqual(["active", "expired", "expired"])
    expect(log.filter((line) => /"level":"(?:error|warn)"/.test(line))).toEqual([])
  })

  it.scopedLive(
    "makes a report due that waits for a retry or a search, however long the pause",
    function* () {
      const { act, clock, recordWith, tab } = yield* startTestConsole
      // The pauses after so many failures in a row take longer than a test may.
      yield* act({ kind: "addFault", upstream: "tracker", route: null, fault: "lost", times: 10 })
      const report = yield* act({
        kind: "report",
        session: null,
        org: null,
        message: "Playback stops after a seek."
      })
      const arrows = () =>
        (tab.actions.get(report.id)?.calls ?? []).filter(({ to }) => to === "tracker").map(arrowOf)
      yield* recordWith("the lost answer", report, ({ calls }) => calls.some(({ fault }) => fault === "lost"))
      yield* awaited(
        "a search that is answered",
        Effect.sync(() => {
          clock.advance(60_000)
          return arrows()
        }),
        (seen) => seen.some((arrow) => arrow.includes("/issues 200"))
      )
      expect(arrows()[0]).toBe("backend -> tracker POST /repos/harbor/music/issues null lost later")
      expect(arrows()).toContain("backend -> tracker GET /repos/harbor/music/issues 200 later")
      expect(arrows().filter((arrow) => arrow.includes("POST"))).toHaveLength(1)
    }
  )

  it.live("ends the sleeps that it passes, and no others", function* () {
    const clock = makeOffsetClock()
    const ended: Array<string> = []
    const sleep = (name: string, milliseconds: number) =>
      Effect.sleep(milliseconds).pipe(
        Effect.zipRight(Effect.sync(() => ended.push(name))),
        Effect.provide(clock.layer),
        Effect.fork
      )
    const short = yield* sleep("a minute", 60_000)
    const long = yield* sleep("a day", day)
    const longer = yield* sleep("a year", 365 * day)
    yield* Effect.yieldNow()
    clock.advance(hour)
    yield* Fiber.join(short)
    expect(ended).toEqual(["a minute"])
    clock.advance(day)
    yield* Fiber.join(long)
    expect(ended).toEqual(["a minute", "a day"])
    yield* Fiber.interrupt(longer)
    clock.advance(365 * day)
    expect(ended).toHaveLength(2)
    // A sleep takes its time where no step passes it.
    const startedAt = performance.now()
    yield* Effect.provide(Effect.sleep(30), clock.layer)
    expect(performance.now() - startedAt).toBeGreaterThan(28)
  })
})
