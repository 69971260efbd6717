/** How many reports one sender may store, the room of all reports, and which requests store no new report. */
import { Effect, type Redacted } from "effect"
import { expect } from "vitest"
import { makeReportQuota } from "../../src/services/usecases/Reports.ts"
import { Anonymous, Verified } from "../../src/services/Store.ts"
import { message, submit } from "../world/Submitting.ts"
import { StoreSwitches } from "../world/TestStore.ts"
import { callerKey, production, scenariosWith, signedIn } from "../world/UseCaseLayers.ts"
import { codeOf } from "./Codes.ts"

const settings = { rateLimit: true }
const limited = scenariosWith({ settings })
const withLittleRoom = scenariosWith({ settings: { ...settings, reportsBytes: 3_000 } })

interface Sender {
  readonly token?: Redacted.Redacted
  readonly clientNetwork?: string
}

/** Sends a new report: `stored`, `replayed`, or the code of the refusal, with the seconds to wait. */
const send = (name: string, sender: Sender = {}) =>
  submit({ key: callerKey(name), request: { message: `${message} ${name}` }, ...sender }).pipe(
    Effect.match({
      onSuccess: ({ replayed }) => (replayed ? "replayed" : "stored"),
      onFailure: (failure) =>
        failure.code === "rate_limited" ? `limited ${failure.retryAfterSeconds}` : failure.code
    })
  )
/** How many of so many reports had each answer. */
const sendMany = (count: number, prefix: string, sender: Sender = {}, concurrency: 1 | "unbounded" = 1) => {
  const names = Array.from({ length: count }, (_, index) => `${prefix}${index}`)
  return Effect.map(
    Effect.forEach(names, (name) => send(name, sender), { concurrency }),
    (answers) =>
      [...new Set(answers)].map((one) => `${answers.filter((each) => each === one).length} ${one}`).join(", ")
  )
}

/** A burst each minute, and what is left of an hour's quota after so many of them: of 60 and of 300, with what was refilled. */
const hours = [
  ["an address", Anonymous(), 10, 6, 6, 60],
  ["a verified reporter", Verified({ publicId: "si:deejay" }), 30, 11, 25, 12]
] as const
limited.each(hours)("%s has a quota for an hour", function* ([, reporter, burst, minutes, left, seconds]) {
  const take = makeReportQuota(true)
  const takeMany = (count: number, minute: number) =>
    Array.from({ length: count }, () => take(production, reporter, "192.0.2.1", minute * 60_000).refusal)
  for (let minute = 0; minute < minutes; minute += 1) {
    const refusals = takeMany(burst + 1, minute).filter((refusal) => refusal !== undefined)
    expect([minute, refusals.length]).toEqual([minute, 1])
  }
  const last = takeMany(left + 1, minutes).map((refusal) => refusal?.retryAfterSeconds)
  expect(last).toEqual([...Array(left).fill(undefined), seconds])
})

limited("a verified reporter may store 30 at once from any address, in each plane", function* () {
  const { token } = yield* signedIn()
  expect(yield* sendMany(20, "a", { token })).toBe("20 stored")
  const elsewhere = { token, clientNetwork: "192.0.2.9" }
  expect(yield* sendMany(30, "b", elsewhere, "unbounded")).toContain("20 limited 2")
  const other = yield* signedIn({ actor: "si:singer" })
  expect(yield* send("of another", { token: other.token })).toBe("stored")
  const testing = yield* signedIn({ environment: "e2e" })
  expect((yield* submit({ plane: testing.plane, token: testing.token })).replayed).toBe(false)
})

limited("a replay, a conflict and what the database failed to store use no quota", function* () {
  const store = yield* StoreSwitches
  expect(yield* sendMany(9, "a")).toBe("9 stored")
  expect(yield* sendMany(9, "a")).toBe("9 replayed")
  const conflict = submit({ key: callerKey("a0"), request: { message: `${message} other` } })
  expect(yield* codeOf(conflict)).toBe("idempotency_conflict")
  yield* store.breakDown("reports.admit")
  expect(yield* send("b")).toBe("dependency_unavailable")
  yield* store.repair("reports.admit")
  expect(yield* sendMany(2, "c")).toBe("1 stored, 1 limited 6")
})

withLittleRoom("a report for which there is no room counts", function* () {
  expect(yield* sendMany(1, "stored")).toBe("1 stored")
  expect(yield* sendMany(10, "a")).toBe("9 reports_full, 1 limited 6")
})
