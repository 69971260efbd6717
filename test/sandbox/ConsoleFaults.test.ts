import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { ActionRecord, FaultKind, Upstream } from "../../sandbox/console/Protocol.ts"
import { arrowOf, startTestConsole } from "../support/SandboxConsole.ts"

/** The arrows to one path that came with the request or later, in order. */
const arrowsTo = (path: string, { calls }: ActionRecord): ReadonlyArray<string> =>
  calls
    .filter((call) => call.path === path)
    .map(({ endedAt, fault, startedAt, status }) =>
      [String(status), fault ?? "", (endedAt ?? 0) - startedAt >= 2_900 ? "3 s" : ""]
        .filter(Boolean)
        .join(" ")
    )

const kinds: ReadonlyArray<FaultKind> = ["down", "slow", "rateLimited", "lost"]

/** For each upstream: a route, and what the retries of the service make of each fault that one call meets. */
const cases: ReadonlyArray<{
  readonly upstream: Upstream
  readonly route: string
  readonly expected: Readonly<Record<FaultKind, ReadonlyArray<string>>>
}> = [
  {
    upstream: "iam",
    route: "POST /api/v1/obo-access/exchanges",
    expected: {
      down: ["null down", "201"],
      slow: ["201 slow 3 s"],
      rateLimited: ["429 rateLimited"],
      lost: ["null lost", "201"]
    }
  },
  {
    upstream: "ting",
    route: "POST /v1/tings",
    expected: {
      down: ["null down", "202"],
      slow: ["202 slow 3 s"],
      rateLimited: ["429 rateLimited"],
      lost: ["null lost", "200"]
    }
  },
  {
    upstream: "tables",
    route: "POST /api/ingest",
    expected: {
      down: ["null down", "200"],
      slow: ["200 slow 3 s"],
      rateLimited: ["429 rateLimited", "200"],
      lost: ["null lost", "200"]
    }
  },
  {
    upstream: "tracker",
    route: "POST /repos/harbor/music/issues",
    expected: {
      down: ["null down", "201"],
      slow: ["201 slow 3 s"],
      rateLimited: ["429 rateLimited", "201"],
      // The search finds the issue.
      lost: ["null lost"]
    }
  }
]

describe.each(cases)(
  "A fault of $upstream shows in the arrows that met it, and in those of the retries:",
  (given) => {
    it.scopedLive.each(kinds)("%s", (fault) =>
      Effect.gen(function* () {
        const { act, clock, login, recordWith, stateWith } = yield* startTestConsole
        const { expected, route, upstream } = given
        const { id } = yield* login()
        const order = { kind: "addFault", upstream, route, fault, times: 1 } as const
        yield* act(order)
        const { faults } = yield* stateWith("the fault", (state) => state.faults.length === 1)
        expect(faults[0]).toMatchObject({ upstream, route, fault, left: 1 })
        const session = { session: id, org: "acme" }
        const action =
          upstream === "tracker"
            ? act({ kind: "report", ...session, message: "It stops." })
            : upstream === "tables"
              ? act({ kind: "telemetry", ...session, table: "musicclidaemon", type: "t", data: "{}" })
              : act({
                  kind: "ting",
                  ...session,
                  type: "music.trigger.fired",
                  key: "si:deejay/1",
                  data: "{}"
                })
        const record = yield* action
        const [, path = ""] = route.split(" ")
        const wanted = expected[fault]
        const isComplete = (seen: ActionRecord) =>
          arrowsTo(path, seen).length >= wanted.length && seen.calls.every(({ endedAt }) => endedAt !== null)
        if (wanted.length > 1 && (upstream === "tables" || upstream === "tracker")) {
          // The retry waits: a step of the clock makes it due at once.
          yield* recordWith("the fault's arrow", record, (seen) => arrowsTo(path, seen).length > 0)
        }
        const complete = yield* recordWith("all arrows", record, isComplete)
        expect(arrowsTo(path, complete)).toEqual(wanted)
        expect(clock.offset()).toBe(0)
        yield* stateWith("no fault", (state) => state.faults.length === 0)
      })
    )
  }
)

describe("A fault", () => {
  it.scopedLive("of every route lasts until it is removed", () =>
    Effect.gen(function* () {
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
      yield* act(remove)
      yield* stateWith("no fault", (state) => state.faults.length === 0)
      expect((yield* act(me)).exchange?.status).toBe(200)
      expect(yield* refused(remove)).toMatchObject({ message: "The fault has ended" })
    })
  )
})
