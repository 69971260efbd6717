import { assert, describe } from "vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import type { ReportRequest } from "../../src/schema/Report.ts"
import { DeliveryUpdate, Store } from "../../src/services/Store.ts"
import { Refused } from "../../src/services/UpstreamFailure.ts"
import type { SettingsOverrides } from "../support/Settings.ts"
import { iamRefusal, SimulatedIam } from "../support/SimulatedIam.ts"
import { admitted, message, submit } from "../support/Submitting.ts"
import { StoreSwitches } from "../support/TestStore.ts"
import { bearer, callerKey, lost, scenario, signedIn, unreachable } from "../support/UseCaseLayers.ts"

const settings: SettingsOverrides = {
  tracker: Option.some({
    token: Redacted.make("tracker-token"),
    owner: "harbor",
    repository: "music",
    url: "https://api.github.com",
    reconcileSeconds: [5, 15, 40]
  })
}

describe("a report", () => {
  scenario("is stored and acknowledged without a name when it is anonymous", function* () {
    const store = yield* Store
    const report = yield* submit()
    assert.match(report.id, /^rep_[0-9a-f]{32}$/)
    deepStrictEqual(
      { ...report, id: "" },
      {
        id: "",
        status: "stored",
        issue_url: null,
        reporter: null,
        created_at: "2026-11-21T10:00:00.400Z",
        replayed: false
      }
    )
    const stored = Option.getOrThrow(yield* store.reports.find(report.id))
    assert.strictEqual(stored.reporter._tag, "Anonymous")
    assert.strictEqual(stored.plane, "production")
    assert.strictEqual(stored.source, "daemon")
    assert.strictEqual(stored.requestId, "request-of-report")
    deepStrictEqual(stored.content, { message, pr: null, attachments: [], context: null })
    assert.match(stored.marker, /^[0-9a-f]{32}$/)
  })

  scenario("of a signed-in caller has the caller's verified name", function* () {
    const { token } = yield* signedIn()
    const report = yield* submit({ token })
    assert.strictEqual(report.reporter, "si:deejay")
  })

  scenario("keeps all fields that were sent", function* () {
    const store = yield* Store
    const full: ReportRequest = {
      message: `  ${message}\n`,
      pr: "https://github.com/harbor/music/pull/12",
      attachments: [{ name: "player.log", content: "line 1\nline 2" }],
      context: { version: "1.2.3", deep: [{ nothing: null }] }
    }
    const { id } = yield* submit({ request: full })
    deepStrictEqual(Option.getOrThrow(yield* store.reports.find(id)).content, full)
  })

  scenario("that the database failed to store is 503, never acknowledged", function* () {
    yield* (yield* StoreSwitches).breakDown("reports.admit")
    const failure = yield* Effect.flip(submit())
    assert.strictEqual(failure.code, "dependency_unavailable")
    deepStrictEqual(failure.details, { dependency: "database" })
  })

  scenario(
    "is returned as filed, with its address, once its issue exists",
    function* () {
      const store = yield* Store
      const first = yield* submit()
      const now = yield* TestClock.currentTimeMillis
      const [delivery] = yield* store.deliveries.lease({
        kinds: ["report"],
        count: 1,
        concurrency: 1,
        now,
        leaseUntil: now + 60_000,
        owner: "worker"
      })
      const issue = { number: 7, url: "https://github.com/harbor/music/issues/7" }
      yield* store.deliveries.update(
        delivery?.id ?? "",
        delivery?.fence ?? 0,
        DeliveryUpdate.Delivered({ at: now, issue: Option.some(issue), sweepAt: Option.none() })
      )
      deepStrictEqual(yield* submit(), {
        ...first,
        status: "filed",
        issue_url: issue.url,
        replayed: true
      })
    },
    { settings }
  )
})

describe("a report is enqueued for the tracker", () => {
  const waiting = Effect.gen(function* () {
    const store = yield* Store
    return (yield* store.deliveries.counts).reduce((sum, { count }) => sum + count, 0)
  })

  scenario(
    "in the same commit, once",
    function* () {
      yield* submit()
      yield* submit()
      assert.strictEqual(yield* waiting, 1)
    },
    { settings }
  )

  scenario("but not without a tracker", function* () {
    yield* submit()
    assert.strictEqual(yield* waiting, 0)
  })

  scenario(
    "but never for a testing plane: the report is stored with its plane",
    function* () {
      const store = yield* Store
      const { plane, token } = yield* signedIn({ environment: "e2e" })
      const report = yield* submit({ plane, token })
      assert.strictEqual(report.reporter, "si:deejay")
      const stored = Option.getOrThrow(yield* store.reports.find(report.id))
      assert.strictEqual(stored.plane, plane._tag === "Testing" ? plane.environmentId : "")
      assert.strictEqual(yield* waiting, 0)
    },
    { settings }
  )
})

describe("a reporter's token", () => {
  scenario("that IAM refuses is 401, and nothing is stored", function* () {
    const { token } = bearer(`oat_${"x".repeat(43)}`)
    assert.strictEqual((yield* Effect.flip(submit({ token }))).code, "unauthenticated")
    assert.isEmpty(yield* admitted)
  })

  scenario("that does not grant the organisation is 403, and nothing is stored", function* () {
    const { token } = yield* signedIn()
    const failure = yield* Effect.flip(submit({ token, organisation: "elsewhere" }))
    assert.strictEqual(failure.code, "forbidden")
    assert.isEmpty(yield* admitted)
  })

  scenario("in a deleted testing environment is testing_secret_invalid", function* () {
    const iam = yield* SimulatedIam
    const environment = yield* iam.environment("e2e")
    yield* iam.deleteEnvironment(environment)
    const { token } = bearer(`oat_${"x".repeat(43)}`)
    const failure = yield* Effect.flip(submit({ token, plane: environment.plane }))
    assert.strictEqual(failure.code, "testing_secret_invalid")
  })

  scenario("that IAM does not verify within 3 s stores the report as unverified", function* () {
    const iam = yield* SimulatedIam
    const store = yield* Store
    const { token } = yield* signedIn()
    const held = yield* iam.hold("introspect")
    const fiber = yield* Effect.fork(submit({ token }))
    yield* held.arrived
    yield* TestClock.adjust("2999 millis")
    assert.isTrue(Option.isNone(yield* Fiber.poll(fiber)))
    yield* TestClock.adjust("1 millis")
    const report = yield* Fiber.join(fiber)
    assert.isNull(report.reporter)
    assert.strictEqual(Option.getOrThrow(yield* store.reports.find(report.id)).reporter._tag, "Unverified")
  })

  scenario("is introspected once: an outage or a 429 costs no retries", function* () {
    const iam = yield* SimulatedIam
    const store = yield* Store
    const { token } = yield* signedIn()
    const limited = new Refused({
      dependency: "iam",
      status: 429,
      code: "rate_limited",
      retryAfterSeconds: 60
    })
    for (const [index, failure] of [
      unreachable("iam"),
      lost("iam"),
      limited,
      iamRefusal(401, "invalid_client")
    ].entries()) {
      const introspections = yield* iam.calls("introspect")
      yield* iam.failNext("introspect", failure)
      const report = yield* submit({ token, key: callerKey(`outage ${index}`) })
      assert.isNull(report.reporter)
      assert.strictEqual(Option.getOrThrow(yield* store.reports.find(report.id)).reporter._tag, "Unverified")
      assert.strictEqual(yield* iam.calls("introspect"), introspections + 1)
    }
  })
})

describe("The pull request of a report", () => {
  const withPr = (pr: string, key = callerKey(pr.slice(-20))) => submit({ request: { message, pr }, key })
  const enterprise: SettingsOverrides = {
    tracker: Option.map(settings.tracker ?? Option.none(), (tracker) => ({
      ...tracker,
      url: "https://git.harbor.example/api/v3"
    }))
  }

  scenario(
    "must be one of its pull requests, also without a token for the tracker",
    function* () {
      yield* withPr("https://github.com/harbor/music/pull/12")
      yield* withPr("https://github.com/Harbor/Music/pull/13")
      for (const pr of [
        "https://github.com/harbor/other/pull/12",
        "https://github.com/other/music/pull/12",
        "https://github.com/harbor/music2/pull/12",
        "https://github.com/harbor/music/issues/12",
        "https://api.github.com/harbor/music/pull/12",
        "https://gitlab.com/harbor/music/pull/12",
        "https://github.com.example/harbor/music/pull/12"
      ]) {
        const failure = yield* Effect.flip(withPr(pr))
        assert.strictEqual(failure.code, "invalid_input", pr)
        deepStrictEqual(
          failure.details?.fields?.map(({ path }) => path),
          ["pr"]
        )
      }
    },
    {
      settings: {
        repository: Option.some({ owner: "harbor", name: "music", url: "https://api.github.com" })
      }
    }
  )

  scenario(
    "may be on the tracker's own host, and on github.com",
    function* () {
      yield* withPr("https://git.harbor.example/harbor/music/pull/12")
      yield* withPr("https://github.com/harbor/music/pull/12", callerKey("github"))
      const failure = yield* Effect.flip(withPr("https://git.other.example/harbor/music/pull/12"))
      assert.strictEqual(failure.code, "invalid_input")
    },
    { settings: enterprise }
  )

  scenario(
    "is checked before IAM is called",
    function* () {
      const iam = yield* SimulatedIam
      const { token } = yield* signedIn()
      const introspections = yield* iam.calls("introspect")
      const pr = "https://github.com/other/music/pull/12"
      yield* Effect.flip(submit({ token, request: { message, pr } }))
      assert.strictEqual(yield* iam.calls("introspect"), introspections)
    },
    { settings }
  )

  scenario("may be any pull request without a configured repository", function* () {
    yield* withPr("https://gitlab.com/any/thing/pull/12")
  })
})
