import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import type { Action, ActionRecord, FaultKind, Upstream } from "../../sandbox/console/Protocol.ts"
import { arrowOf, startTestConsole } from "../support/SandboxConsole.ts"

const kinds: ReadonlyArray<FaultKind> = ["down", "slow", "rateLimited", "lost"]

const ting = (session: string, key: string): Action => ({
  kind: "ting",
  session,
  org: "acme",
  type: "music.trigger.fired",
  key: `si:deejay/${key}`,
  data: "{}"
})

/** For each upstream: a route, an action that calls it, and what becomes of each fault that the first call meets. */
const cases: ReadonlyArray<{
  readonly upstream: Upstream
  readonly route: string
  readonly action: (session: string, fault: FaultKind) => Action
  readonly expected: Readonly<Record<FaultKind, ReadonlyArray<string>>>
}> = [
  {
    upstream: "iam",
    route: "POST /api/v1/obo-access/exchanges",
    action: ting,
    expected: {
      down: ["POST null down", "POST 201"],
      slow: ["POST 201 slow"],
      rateLimited: ["POST 429 rateLimited"],
      lost: ["POST null lost", "POST 201"]
    }
  },
  {
    upstream: "ting",
    route: "POST /v1/tings",
    action: ting,
    expected: {
      down: ["POST null down", "POST 202"],
      slow: ["POST 202 slow"],
      rateLimited: ["POST 429 rateLimited"],
      lost: ["POST null lost", "POST 200"]
    }
  },
  {
    upstream: "tables",
    route: "POST /api/ingest",
    action: () => ({
      kind: "telemetry",
      session: null,
      org: null,
      table: "musicclidaemon",
      type: "t",
      data: "{}"
    }),
    expected: {
      down: ["POST null down", "POST 200"],
      slow: ["POST 200 slow"],
      rateLimited: ["POST 429 rateLimited", "POST 200"],
      lost: ["POST null lost", "POST 200"]
    }
  },
  {
    upstream: "tracker",
    route: "POST /repos/harbor/music/issues",
    action: () => ({ kind: "report", session: null, org: null, message: "Playback stops after a seek." }),
    expected: {
      // The issue is searched for three times before the report is sent again.
      down: ["POST null down", "GET 200", "GET 200", "GET 200", "POST 201"],
      slow: ["POST 201 slow"],
      rateLimited: ["POST 429 rateLimited", "GET 200", "POST 201"],
      lost: ["POST null lost", "GET 200"]
    }
  }
]

describe.concurrent("The arrows of an action show the fault that a call met, and the retries of the service:", () => {
  it.scopedLive.each(cases)("$upstream", function* ({ action, expected, route, upstream }) {
    const { act, login, recordWith, stateWith } = yield* startTestConsole
    const { id } = yield* login()
    const [, path = ""] = route.split(" ")
    const callsTo = ({ calls }: ActionRecord) =>
      calls.filter((call) => call.path === path && call.endedAt !== null)
    for (const fault of kinds) {
      yield* act({ kind: "addFault", upstream, route, fault, times: 1 })
      const { faults } = yield* stateWith("the fault", (state) => state.faults.length === 1)
      expect(faults[0]).toMatchObject({ upstream, route, fault, left: 1 })
      const record = yield* act(action(id, fault))
      const wanted = expected[fault]
      for (let count = 1; count <= wanted.length; count += 1) {
        const seen = yield* recordWith(
          `${count} calls after ${fault}`,
          record,
          (now) => callsTo(now).length >= count
        )
        const arrows = callsTo(seen).map(({ fault: met, method, status }) =>
          [method, String(status), met ?? ""].join(" ").trim()
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
})

describe("A fault", () => {
  it.scopedLive("of every route lasts until it is removed", function* () {
    const { act, login, refused, stateWith } = yield* startTestConsole
    const { id } = yield* login()
    yield* act({ kind: "addFault", upstream: "iam", route: null, fault: "down", times: null })
    const { faults } = yield* stateWith("the fault", (state) => state.faults.length === 1)
    expect(faults[0]).toMatchObject({ upstream: "iam", route: null, left: null })
    const me = { kind: "me", session: id, org: "acme" } as const
    const failed = yield* act(me)
    expect(failed.exchange?.status).toBe(503)
    expect(failed.calls.slice(1).map(arrowOf)).toEqual(
      Array(3).fill("backend -> iam POST /api/v1/oauth/introspect null down")
    )
    const remove = { kind: "removeFault", fault: faults[0]?.id ?? 0 } as const
    expect((yield* act(remove)).title).toBe("Remove: IAM is down")
    yield* stateWith("no fault", (state) => state.faults.length === 0)
    expect((yield* act(me)).exchange?.status).toBe(200)
    expect(yield* refused(remove)).toMatchObject({ message: "The fault has ended" })
  })
})
