/** How many reports one sender may store, and which requests store no new report. */
import { assert, describe } from "vitest"
import { it } from "../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { RateLimited } from "../../src/schema/Failure.ts"
import { ReportQuota } from "../../src/services/ReportQuota.ts"
import { monotonicMillis } from "../../src/services/MonotonicTime.ts"
import { RequestContext } from "../../src/services/RequestContext.ts"
import { Settings } from "../../src/services/Settings.ts"
import { Anonymous, type Reporter, Store, Verified } from "../../src/services/Store.ts"
import { sampleLease } from "../layers/store/Samples.ts"
import { SimulatedIam } from "../support/SimulatedIam.ts"
import { testSettings } from "../support/Settings.ts"
import { message, submit } from "../support/Submitting.ts"
import { StoreSwitches } from "../support/TestStore.ts"
import {
  callerKey,
  inRequest,
  production,
  scenario,
  signedIn,
  unreachable
} from "../support/UseCaseLayers.ts"

const settings = { rateLimit: true }

const tracker = Option.some({
  token: Redacted.make("token"),
  owner: "harbor",
  repository: "music",
  url: "https://api.github.com",
  reconcileSeconds: [5, 15, 40]
})

interface Sender {
  readonly token?: Redacted.Redacted
  readonly clientNetwork?: string
}

/** Sends a new report: `stored`, `replayed`, or the reason of the refusal with the seconds to wait. */
const send = (name: string, sender: Sender = {}) =>
  submit({ key: callerKey(name), request: { message: `${message} ${name}` }, ...sender }).pipe(
    Effect.map(({ replayed }) => (replayed ? "replayed" : "stored")),
    Effect.catchAll((failure) =>
      Effect.succeed(
        failure instanceof RateLimited ? `${failure.code} ${failure.retryAfterSeconds}` : failure.code
      )
    )
  )

const sendMany = (count: number, prefix: string, sender: Sender = {}) =>
  Effect.forEach(
    Array.from({ length: count }, (_, index) => `${prefix}${index}`),
    (name) => send(name, sender)
  )

const many = <A>(count: number, answer: A) => Array.from({ length: count }, () => answer)

describe("An address", () => {
  scenario(
    "may store 10 at once, and then 10 a minute",
    function* () {
      deepStrictEqual(yield* sendMany(12, "a"), [...many(10, "stored"), ...many(2, "rate_limited 6")])
      yield* TestClock.adjust("6 seconds")
      deepStrictEqual(yield* sendMany(2, "b"), ["stored", "rate_limited 6"])
    },
    { settings }
  )

  scenario(
    "has a quota of its own",
    function* () {
      yield* sendMany(10, "a")
      assert.strictEqual(yield* send("b"), "rate_limited 6")
      assert.strictEqual(yield* send("b", { clientNetwork: "192.0.2.2" }), "stored")
    },
    { settings }
  )

  scenario(
    "cannot exceed its quota with concurrent reports",
    function* () {
      const answers = yield* Effect.forEach(
        Array.from({ length: 30 }, (_, index) => index),
        (index) => send(`a${index}`),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(answers.filter((answer) => answer === "stored").length, 10)
    },
    { settings }
  )

  scenario(
    "gets the quota's name in the refusal",
    function* () {
      yield* sendMany(10, "a")
      const failure = yield* Effect.flip(submit({ key: callerKey("b") }))
      assert.instanceOf(failure, RateLimited)
      deepStrictEqual(failure.quota, {
        policy: { name: "reports", quota: 10, windowSeconds: 60 },
        remaining: 0,
        resetSeconds: 60,
        retryAfterSeconds: 6
      })
    },
    { settings }
  )

  scenario("is not limited with MUSIC_RATE_LIMIT=off", function* () {
    deepStrictEqual(yield* sendMany(15, "a"), many(15, "stored"))
  })
})

describe("A verified reporter", () => {
  scenario(
    "may store 30 at once from any addresses, and uses no quota of the address",
    function* () {
      const { token } = yield* signedIn()
      const elsewhere = { token, clientNetwork: "192.0.2.9" }
      deepStrictEqual(yield* sendMany(20, "a", { token }), many(20, "stored"))
      deepStrictEqual(yield* sendMany(11, "b", elsewhere), [...many(10, "stored"), "rate_limited 2"])
      assert.strictEqual(yield* send("c"), "stored")
      const other = yield* signedIn({ actor: "si:singer" })
      assert.strictEqual(yield* send("d", { token: other.token }), "stored")
    },
    { settings }
  )

  scenario(
    "has a quota in each plane",
    function* () {
      const { token } = yield* signedIn()
      yield* sendMany(30, "a", { token })
      const testing = yield* signedIn({ environment: "e2e" })
      const report = submit({ plane: testing.plane, token: testing.token })
      assert.isFalse((yield* report).replayed)
    },
    { settings }
  )

  scenario(
    "is counted by address while IAM is unavailable",
    function* () {
      const iam = yield* SimulatedIam
      const { token } = yield* signedIn()
      const sendUnverified = (name: string, sender: Sender = {}) =>
        Effect.zipRight(iam.failNext("introspect", unreachable("iam")), send(name, { token, ...sender }))
      const answers = yield* Effect.forEach(
        Array.from({ length: 11 }, (_, index) => index),
        (index) => sendUnverified(`a${index}`)
      )
      deepStrictEqual(answers, [...many(10, "stored"), "rate_limited 6"])
      assert.strictEqual(yield* send("without a token"), "rate_limited 6")
      assert.strictEqual(yield* sendUnverified("elsewhere", { clientNetwork: "192.0.2.9" }), "stored")
      assert.strictEqual(yield* send("b", { token }), "stored")
    },
    { settings }
  )
})

describe("A replay that moves up an unverified report", () => {
  scenario(
    "uses the reporter's quota; without quota it is answered, and the report keeps its place",
    function* () {
      const iam = yield* SimulatedIam
      const store = yield* Store
      const { token } = yield* signedIn()
      const names = Array.from({ length: 32 }, (_, index) => `a${index}`)
      for (const [index, name] of names.entries()) {
        yield* iam.failNext("introspect", unreachable("iam"))
        yield* send(name, { token, clientNetwork: `192.0.2.${Math.floor(index / 8)}` })
      }
      /** How many reports are filed while others wait. */
      const prioritised = Effect.gen(function* () {
        const now = yield* TestClock.currentTimeMillis
        const leased = yield* store.deliveries.lease(
          sampleLease({ ordinary: false, count: 100, now, leaseUntil: now + 1_000 })
        )
        return leased.length
      })
      const replays = Effect.forEach(names, (name) => send(name, { token }))
      deepStrictEqual(yield* replays, many(32, "replayed"))
      deepStrictEqual(yield* send("new", { token }), "rate_limited 2")
      deepStrictEqual(yield* prioritised, 30)

      // The leases of before have ended, and two reports may move up.
      yield* TestClock.adjust("4 seconds")
      deepStrictEqual(yield* replays, many(32, "replayed"))
      deepStrictEqual(yield* prioritised, 32)
      deepStrictEqual(yield* replays, many(32, "replayed"))
      deepStrictEqual(yield* send("new", { token }), "rate_limited 2")
    },
    { settings: { ...settings, tracker } }
  )
})

describe("Two equal reports at once", () => {
  scenario(
    "are one report, and count once",
    function* () {
      const both = yield* Effect.all([send("a"), send("a")], { concurrency: "unbounded" })
      deepStrictEqual([...both].sort(), ["replayed", "stored"])
      deepStrictEqual(yield* sendMany(10, "b"), [...many(9, "stored"), "rate_limited 6"])
    },
    { settings }
  )
})

describe("A report that finds no room", () => {
  scenario(
    "counts, because its content was redacted; a repetition finds its report all the same",
    function* () {
      deepStrictEqual(yield* sendMany(1, "stored"), ["stored"])
      deepStrictEqual(yield* sendMany(10, "a"), [...many(9, "reports_full"), "rate_limited 6"])
      deepStrictEqual(yield* sendMany(1, "stored"), ["replayed"])
    },
    { settings: { ...settings, reportsBytes: 3_000 } }
  )
})

describe("No quota is used by", () => {
  scenario(
    "a replayed report, which is answered also when the quota is exhausted",
    function* () {
      yield* sendMany(9, "a")
      deepStrictEqual(yield* sendMany(9, "a"), many(9, "replayed"))
      deepStrictEqual(yield* sendMany(2, "b"), ["stored", "rate_limited 6"])
      deepStrictEqual(yield* sendMany(9, "a"), many(9, "replayed"))
    },
    { settings }
  )

  scenario(
    "a conflict, and a report that the database failed to store",
    function* () {
      const store = yield* StoreSwitches
      yield* sendMany(9, "a")
      const conflict = submit({ key: callerKey("a0"), request: { message: `${message} other` } })
      assert.strictEqual((yield* Effect.flip(conflict)).code, "idempotency_conflict")
      yield* store.breakDown("reports.admit")
      assert.strictEqual(yield* send("b"), "dependency_unavailable")
      yield* store.repair("reports.admit")
      deepStrictEqual(yield* sendMany(2, "c"), ["stored", "rate_limited 6"])
    },
    { settings }
  )
})

/** How many of these reports are stored, and the quota that refuses the last of them. */
const take = (count: number, reporter: Reporter) =>
  Effect.gen(function* () {
    const quota = yield* ReportQuota
    let stored = 0
    let exhausted: number | undefined
    for (let report = 0; report < count; report += 1) {
      const { clientNetwork } = yield* RequestContext
      const { giveBack, makeRefusal } = quota.take(
        production,
        reporter,
        clientNetwork,
        yield* monotonicMillis
      )
      if (makeRefusal === undefined) stored += 1
      else {
        exhausted = makeRefusal().quota?.policy.windowSeconds
        // As for every report that is not stored.
        giveBack()
      }
    }
    return { stored, exhausted }
  }).pipe(inRequest())

const minutes = (count: number, reports: number, reporter: Reporter) =>
  Effect.forEach(Array.from({ length: count }), () =>
    Effect.zipRight(TestClock.adjust("1 minutes"), take(reports, reporter))
  )

const quotas = Effect.provide(
  Layer.provide(ReportQuota.Default, Layer.succeed(Settings, testSettings(settings)))
)

describe("The quotas of a minute and of an hour", () => {
  it.effect("are 10 and 60 for an address, and do not change with refused reports", () =>
    Effect.gen(function* () {
      const first = yield* take(50, Anonymous())
      deepStrictEqual(first, { stored: 10, exhausted: 60 })
      deepStrictEqual(yield* minutes(5, 50, Anonymous()), many(5, first))
      // 60 and 6 refilled ones, of which 60 are stored.
      deepStrictEqual(yield* minutes(1, 50, Anonymous()), [{ stored: 6, exhausted: 3_600 }])
    }).pipe(quotas)
  )

  it.effect("are 30 and 300 for a verified reporter", () =>
    Effect.gen(function* () {
      const reporter = Verified({ publicId: "si:deejay" })
      const first = yield* take(31, reporter)
      deepStrictEqual(first, { stored: 30, exhausted: 60 })
      deepStrictEqual(yield* minutes(10, 31, reporter), many(10, first))
      // 300 and 55 refilled ones, of which 330 are stored.
      deepStrictEqual(yield* minutes(1, 31, reporter), [{ stored: 25, exhausted: 3_600 }])
    }).pipe(quotas)
  )
})
