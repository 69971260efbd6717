import { Effect, Fiber, Option, Redacted, TestClock } from "effect"
import { describe, expect } from "vitest"
import type { ReportRequest } from "../../src/schema/Report.ts"
import { digestOf } from "../../src/services/Digest.ts"
import { DeliveryUpdate, Store, Unverified } from "../../src/services/Store.ts"
import { type SettingsOverrides, testTracker } from "../world/Settings.ts"
import { SimulatedIam } from "../world/SimulatedIam.ts"
import { Refused } from "../../src/services/UpstreamFailure.ts"
import { admitted, message, submit } from "../world/Submitting.ts"
import { bearer, callerKey, scenario, scenariosWith, signedIn } from "../world/UseCaseLayers.ts"
import { codeOf } from "./Codes.ts"

const settings: SettingsOverrides = { tracker: Option.some(testTracker) }
const storedAs = (id: string) =>
  Effect.flatMap(Store, (store) => Effect.map(store.reports.find(id), Option.getOrThrow))

describe("a report", () => {
  scenario("is stored and acknowledged without a name when it is anonymous", function* () {
    const report = yield* submit()
    expect(report).toEqual({
      // Begins with the time: the store's indexes of ids grow at their end.
      id: expect.stringMatching(/^rep_01a1fd8c6a907[0-9a-f]{19}$/),
      status: "stored",
      issue_url: null,
      reporter: null,
      created_at: "2026-11-21T10:00:00.400Z",
      replayed: false
    })
    expect(yield* storedAs(report.id)).toMatchObject({
      reporter: { _tag: "Anonymous" },
      plane: "production",
      source: "daemon",
      requestId: "request-of-report",
      content: { message, pr: null, attachments: [], context: null },
      marker: expect.stringMatching(/^[0-9a-f]{32}$/)
    })
  })

  scenario("of a signed-in caller has the verified name, and keeps all fields that were sent", function* () {
    const { token } = yield* signedIn()
    const full: ReportRequest = {
      message: `  ${message}\n`,
      pr: "https://github.com/harbor/music/pull/12",
      attachments: [{ name: "player.log", content: "line 1\nline 2" }],
      context: { version: "1.2.3", deep: [{ nothing: null }] }
    }
    const { id, reporter } = yield* submit({ token, request: full })
    expect([reporter, (yield* storedAs(id)).content]).toEqual(["si:deejay", full])
  })

  const secret = `ort_${"s3cret".repeat(8)}`
  scenario("is stored without credentials: those of its text, the key and the token", function* () {
    const { token } = yield* signedIn()
    const key = callerKey("secret key")
    const content: ReportRequest = {
      message: `${message} ${secret}`,
      attachments: [{ name: `log of ${secret}`, content: `token=${secret}` }],
      context: { [secret]: 1, deep: [{ value: secret }] }
    }
    yield* submit({ token, key, request: content })
    const stored = JSON.stringify(yield* admitted)
    for (const text of [secret, Redacted.value(key), Redacted.value(token), digestOf(token)])
      expect(stored).not.toContain(text)
    for (const text of [`${message} [redacted]`, "token=[redacted]", digestOf(key)])
      expect(stored).toContain(text)
    // Two credentials in one place still make two contents.
    const other = submit({ token, key, request: { message: `${message} ${secret}x` } })
    expect(yield* codeOf(other)).toBe("idempotency_conflict")
  })
})

describe("the delivery of a report", () => {
  const waiting = Effect.flatMap(Store, (store) =>
    Effect.map(store.deliveries.counts, (counts) => counts.reduce((sum, { count }) => sum + count, 0))
  )

  scenariosWith({ settings })("is enqueued once; filed, the report has its address", function* () {
    const store = yield* Store
    const first = yield* submit()
    yield* submit()
    expect(yield* waiting).toBe(1)
    const now = yield* TestClock.currentTimeMillis
    const delivery = Option.getOrThrow(yield* store.deliveries.lease({ now, leaseUntil: now + 60_000 }))
    const issue = { number: 7, url: "https://github.com/harbor/music/issues/7" }
    const update = { at: now, issue: Option.some(issue), sweepAt: Option.none() }
    yield* store.deliveries.update(delivery, DeliveryUpdate.Delivered(update))
    expect(yield* submit()).toEqual({ ...first, status: "filed", issue_url: issue.url, replayed: true })
  })

  scenariosWith({ settings })("is none for a testing plane", function* () {
    const { plane, token } = yield* signedIn({ environment: "e2e" })
    const report = yield* submit({ plane, token })
    expect(report.reporter).toBe("si:deejay")
    expect((yield* storedAs(report.id)).plane).toBe(plane._tag === "Testing" ? plane.environmentId : "")
    expect(yield* waiting).toBe(0)
  })
})

describe("a reporter's token", () => {
  const dead = bearer(`oat_${"x".repeat(43)}`).token

  scenario("that IAM refuses, or that lacks the organisation, stores nothing", function* () {
    const iam = yield* SimulatedIam
    const { token } = yield* signedIn()
    const environment = yield* iam.environment("e2e")
    yield* iam.deleteEnvironment(environment)
    for (const [given, code] of [
      [{ token: dead }, "unauthenticated"],
      [{ token, organisation: "elsewhere" }, "forbidden"],
      [{ token: dead, plane: environment.plane }, "testing_secret_invalid"]
    ] as const)
      expect(yield* codeOf(submit(given))).toBe(code)
    expect(yield* admitted).toEqual([])
  })

  scenario("that IAM does not verify within 3 s stores the report as unverified", function* () {
    const iam = yield* SimulatedIam
    const { token } = yield* signedIn()
    const held = yield* iam.hold("introspect")
    const fiber = yield* Effect.fork(submit({ token }))
    yield* held.arrived
    yield* TestClock.adjust("2999 millis")
    expect(Option.isNone(yield* Fiber.poll(fiber))).toBe(true)
    yield* TestClock.adjust("1 millis")
    const { id, reporter } = yield* Fiber.join(fiber)
    expect([reporter, (yield* storedAs(id)).reporter._tag]).toEqual([null, "Unverified"])
  })
})

describe("the pull request of a report", () => {
  const withPr = (pr: string, token?: Redacted.Redacted) =>
    submit({ request: { message, pr }, key: callerKey(digestOf(Redacted.make(pr))), ...(token && { token }) })
  const github = "https://github.com/harbor/music/pull/12"
  const { token: _, ...repository } = testTracker
  const enterprise = { ...testTracker, url: "https://git.harbor.example/api/v3" }
  const misses =
    "github.com/other/music/pull github.com/harbor/music2/pull github.com.example/harbor/music/pull"
      .split(" ")
      .map((address) => `https://${address}/12`)
  const ofEnterprise = "https://git.harbor.example/harbor/music/pull/12"
  const rows: ReadonlyArray<readonly [SettingsOverrides, ReadonlyArray<string>, ReadonlyArray<string>]> = [
    [{ repository: Option.some(repository) }, [github, "https://github.com/Harbor/Music/pull/13"], misses],
    [{ tracker: Option.some(enterprise) }, [github, ofEnterprise], ["https://git.other.example/a/b/pull/1"]],
    [{}, ["https://gitlab.com/any/thing/pull/12"], []]
  ]
  for (const [overrides, fits, others] of rows)
    scenariosWith({ settings: overrides })(`is one of the repository: ${fits.join(", ")}`, function* () {
      for (const pr of fits) yield* withPr(pr)
      const iam = yield* SimulatedIam
      const { token } = yield* signedIn()
      const introspections = yield* iam.calls("introspect")
      for (const pr of others)
        expect(yield* Effect.flip(withPr(pr, token)), pr).toMatchObject({
          code: "invalid_input",
          details: { fields: [{ path: "pr" }] }
        })
      // It is checked before IAM is called.
      expect(yield* iam.calls("introspect")).toBe(introspections)
    })
})

describe("the same key", () => {
  scenario("replays the report for the same content, and conflicts for other content", function* () {
    const { token } = yield* signedIn()
    const later = yield* signedIn()
    const context = { a: 1, b: { d: 2 }, list: [-0, { e: 3 }] }
    const others = [
      { message: `${message}!`, context },
      { message, context, pr: "https://github.com/harbor/music/pull/1" },
      { message, context, attachments: [] },
      { message, context: {} },
      { message, context: { ...context, list: [{ e: 3 }, 0] } }
    ]
    for (const [who, again] of [
      [{}, {}],
      [{ token }, { token: later.token }]
    ]) {
      const withNull = { ...context, b: { c: null, d: 2 } }
      const first = yield* submit({ ...who, request: { message, context: withNull } })
      yield* TestClock.adjust("10 minutes")
      // The order of keys and null members are ignored.
      const same = {
        context: { list: [0, { f: null, e: 3 }], b: { d: 2 }, a: 1 },
        attachments: null,
        pr: null,
        message
      }
      expect(yield* submit({ ...again, request: same })).toEqual({ ...first, replayed: true })
      for (const request of others)
        expect(yield* codeOf(submit({ ...who, request }))).toBe("idempotency_conflict")
    }
  })

  scenario("replays an unverified report for a reporter whom IAM verifies later", function* () {
    const iam = yield* SimulatedIam
    const { token } = yield* signedIn()
    const limited = new Refused({
      dependency: "iam",
      status: 429,
      code: "rate_limited",
      retryAfterSeconds: 5
    })
    yield* iam.failNext("introspect", limited)
    const first = yield* submit({ token })
    expect(yield* submit({ token })).toEqual({ ...first, reporter: "si:deejay", replayed: true })
    expect((yield* storedAs(first.id)).reporter).toEqual(Unverified())
    // While IAM is unavailable again, the replay returns no name.
    yield* iam.failNext("introspect", limited)
    expect(yield* submit({ token })).toEqual({ ...first, replayed: true })
  })
})
