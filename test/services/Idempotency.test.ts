import { assert, describe } from "vitest"
import { it } from "../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import { IdempotencyConflict } from "../../src/schema/Failure.ts"
import {
  attemptKey,
  Idempotency,
  type KeyedOperation,
  type Sharing,
  upstreamKey
} from "../../src/services/Idempotency.ts"
import { type Plane, Production, Testing } from "../../src/services/Plane.ts"
import { RequestContext } from "../../src/services/RequestContext.ts"

const testing = (environmentId: string): Plane =>
  Testing({ environmentId, secret: Redacted.make("ask_secret"), webhookKeyDigest: undefined })
const key = (text: string) => Redacted.make(text)
const plane = Production()
const build = Layer.build(Idempotency.Default)

describe("upstreamKey", () => {
  // Another value here breaks every replay in flight across a deployment: a changed vector is a changed contract.
  it("is frozen by test vectors", () => {
    const callerKey = key("frozen-vector-0001")
    const environment = testing("0199b000-0000-7000-8000-00000000000e")
    const vectors: ReadonlyArray<readonly [KeyedOperation, Plane, string]> = [
      ["login", plane, "387276d88bdf8f57b542682caefc13d82ec9c86c2659f0798de5db7023f471eb"],
      ["login", environment, "abb6eb79da432980443d877edb75382df86d10df8e14d4872275a6b352f1a212"],
      ["abandon", plane, "6d59327a8f818754ed8019482e9ebf11fd20b465a6743009bc1687f325dd1321"],
      ["abandon", environment, "bfac9ddd80a57be5d5765316961a0889860c53b6590c2db423087bb80e804667"],
      ["refresh", plane, "7a0f670445bdee29609f6dcdc49c633c12ce5adeb50ad971284fdad97dc771df"],
      ["refresh", environment, "3b2a97d9ed63f217071539a46c413ca3a95a987c2fe5143797a25651667310f3"],
      ["logout", plane, "dfeb295c279f0ecaa890149401869ef62b984986c5cf6c92d5ae09ad6bc08053"],
      ["logout", environment, "93ba441dc742a6d98cea9d14c70422577bd9ef843520e0008563431dbbc8fa6f"]
    ]
    for (const [operation, where, expected] of vectors) {
      assert.strictEqual(upstreamKey(operation, where, callerKey), expected, `${operation} in ${where._tag}`)
    }
  })

  it("fits IAM's grammar and never contains the caller's key", () => {
    const made = upstreamKey("login", plane, key("!".repeat(255)))
    assert.match(made, /^[0-9a-f]{64}$/)
  })

  it("differs between planes, operations and callers' keys", () => {
    const operation = FastCheck.constantFrom<KeyedOperation>("login", "abandon", "refresh", "logout")
    const where = FastCheck.oneof(FastCheck.constant(plane), FastCheck.uuid().map(testing))
    const visible = FastCheck.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code))
    const callerKey = FastCheck.array(visible, { minLength: 16, maxLength: 255 }).map((parts) =>
      parts.join("")
    )
    const request = FastCheck.tuple(operation, where, callerKey)
    const identity = ([name, at, text]: readonly [KeyedOperation, Plane, string]) =>
      JSON.stringify([name, at._tag === "Testing" ? at.environmentId : null, text])
    FastCheck.assert(
      FastCheck.property(request, request, operation, where, callerKey, (left, right, name, at, text) => {
        const made = ([a, b, c]: readonly [KeyedOperation, Plane, string]) => upstreamKey(a, b, key(c))
        assert.strictEqual(made(left) === made(right), identity(left) === identity(right))
        // One part changed at a time: chance alone would hardly ever produce these neighbours.
        for (const neighbour of [
          [name, left[1], left[2]],
          [left[0], at, left[2]],
          [left[0], left[1], text]
        ] as const) {
          assert.strictEqual(made(left) === made(neighbour), identity(left) === identity(neighbour))
        }
      })
    )
  })

  it.effect("is unique for each attempt", function* () {
    const keys = yield* Effect.replicateEffect(attemptKey, 100)
    assert.strictEqual(new Set(keys).size, 100)
    for (const one of keys) assert.match(one, /^[0-9a-f]{64}$/)
  })
})

/** Work that waits until it is released, and counts how often it was started and interrupted. */
const makeWork = Effect.gen(function* () {
  const begun = yield* Deferred.make<void>()
  const letGo = yield* Deferred.make<void>()
  const state = { executions: 0, interruptions: 0 }
  const run = Effect.gen(function* () {
    state.executions += 1
    const answer = state.executions
    yield* Deferred.succeed(begun, undefined)
    yield* Deferred.await(letGo)
    return answer
  }).pipe(
    Effect.onInterrupt(() =>
      Effect.sync(() => {
        state.interruptions += 1
      })
    )
  )
  return { state, run, begun: Deferred.await(begun), letGo: Deferred.succeed(letGo, undefined) }
})

const sharing: Sharing = {
  operation: "login",
  plane,
  callerKey: "digest-of-key",
  content: "digest-of-content"
}

const settle = Effect.repeatN(Effect.yieldNow(), 20)

describe("executeOnce", () => {
  it.scoped("shares one execution and one result between identical requests in flight", () =>
    Effect.gen(function* () {
      const { executeOnce } = yield* Idempotency
      const work = yield* makeWork
      const first = yield* Effect.fork(executeOnce(sharing)(work.run))
      yield* work.begun
      const others = yield* Effect.fork(
        Effect.all([executeOnce(sharing)(work.run), executeOnce({ ...sharing })(work.run)], {
          concurrency: "unbounded"
        })
      )
      yield* settle
      yield* work.letGo
      assert.strictEqual(yield* Fiber.join(first), 1)
      deepStrictEqual(yield* Fiber.join(others), [1, 1])
      assert.strictEqual(work.state.executions, 1)
    }).pipe(Effect.provide(Idempotency.Default))
  )

  it.scoped("starts a new execution for a request that arrives after the result", () =>
    Effect.gen(function* () {
      const { executeOnce } = yield* Idempotency
      const work = yield* makeWork
      yield* work.letGo
      assert.strictEqual(yield* executeOnce(sharing)(work.run), 1)
      assert.strictEqual(yield* executeOnce(sharing)(work.run), 2)
    }).pipe(Effect.provide(Idempotency.Default))
  )

  for (const leaving of [0, 1])
    it.scoped(`continues when the ${leaving === 0 ? "first" : "second"} of two callers disconnects`, () =>
      Effect.gen(function* () {
        const { executeOnce } = yield* Idempotency
        const work = yield* makeWork
        const first = yield* Effect.fork(executeOnce(sharing)(work.run))
        yield* work.begun
        const second = yield* Effect.fork(executeOnce(sharing)(work.run))
        yield* settle
        const [gone, kept] = leaving === 0 ? [first, second] : [second, first]
        assert.isTrue(Exit.isInterrupted(yield* Fiber.interrupt(gone)))
        yield* work.letGo
        assert.strictEqual(yield* Fiber.join(kept), 1)
        deepStrictEqual(work.state, { executions: 1, interruptions: 0 })
      }).pipe(Effect.provide(Idempotency.Default))
    )

  it.scoped("continues when its only caller disconnects, and later callers join it", () =>
    Effect.gen(function* () {
      const { executeOnce } = yield* Idempotency
      const work = yield* makeWork
      const first = yield* Effect.fork(executeOnce(sharing)(work.run))
      yield* work.begun
      yield* Fiber.interrupt(first)
      const again = yield* Effect.fork(executeOnce(sharing)(work.run))
      yield* settle
      yield* work.letGo
      assert.strictEqual(yield* Fiber.join(again), 1)
      deepStrictEqual(work.state, { executions: 1, interruptions: 0 })
    }).pipe(Effect.provide(Idempotency.Default))
  )

  it.scoped("gives a failure to every caller, and does not keep it", () =>
    Effect.gen(function* () {
      const { executeOnce } = yield* Idempotency
      const work = yield* makeWork
      const failing = Effect.flatMap(work.run, (count) => Effect.fail(`failure ${count}`))
      const both = yield* Effect.fork(
        Effect.all([Effect.flip(executeOnce(sharing)(failing)), Effect.flip(executeOnce(sharing)(failing))], {
          concurrency: "unbounded"
        })
      )
      yield* work.begun
      yield* settle
      yield* work.letGo
      deepStrictEqual(yield* Fiber.join(both), ["failure 1", "failure 1"])
      assert.strictEqual(yield* Effect.flip(executeOnce(sharing)(failing)), "failure 2")
    }).pipe(Effect.provide(Idempotency.Default))
  )

  it.scoped("gives a defect to every caller", () =>
    Effect.gen(function* () {
      const { executeOnce } = yield* Idempotency
      const work = yield* makeWork
      const dying = Effect.flatMap(work.run, () => Effect.die("broken"))
      const both = yield* Effect.fork(
        Effect.all([Effect.exit(executeOnce(sharing)(dying)), Effect.exit(executeOnce(sharing)(dying))], {
          concurrency: "unbounded"
        })
      )
      yield* work.begun
      yield* settle
      yield* work.letGo
      deepStrictEqual(yield* Fiber.join(both), [Exit.die("broken"), Exit.die("broken")])
    }).pipe(Effect.provide(Idempotency.Default))
  )

  it.effect("interrupts the execution and all callers when the process ends", function* () {
    const scope = yield* Scope.make()
    const { executeOnce } = yield* Effect.provide(Idempotency, yield* Scope.extend(build, scope))
    const work = yield* makeWork
    const first = yield* Effect.fork(executeOnce(sharing)(work.run))
    yield* work.begun
    yield* Scope.close(scope, Exit.void)
    assert.isTrue(Exit.isInterrupted(yield* Fiber.await(first)))
    assert.strictEqual(work.state.interruptions, 1)
    const late = yield* Effect.exit(executeOnce(sharing)(work.run))
    assert.isTrue(Exit.isInterrupted(late))
  })
})

describe("the identity of requests", () => {
  const joins = (left: Sharing, right: Sharing, recording: readonly [boolean, boolean] = [true, true]) =>
    Effect.gen(function* () {
      const { executeOnce } = yield* Idempotency
      const work = yield* makeWork
      const info = yield* RequestContext
      const ask = (how: Sharing, recorded: boolean) =>
        executeOnce(how)(work.run).pipe(
          Effect.provideService(RequestContext, { ...info, recording: recorded }),
          Effect.either
        )
      const both = yield* Effect.fork(
        Effect.all([ask(left, recording[0]), ask(right, recording[1])], { concurrency: "unbounded" })
      )
      yield* work.begun
      yield* settle
      yield* work.letGo
      const [, second] = yield* Fiber.join(both)
      if (second._tag === "Left") return second.left._tag
      return work.state.executions === 1 ? "joined" : "apart"
    }).pipe(Effect.provide(Idempotency.Default))

  it.scoped("includes the operation, the plane and the organisation", function* () {
    assert.strictEqual(yield* joins(sharing, { ...sharing }), "joined")
    assert.strictEqual(yield* joins(sharing, { ...sharing, operation: "refresh" }), "apart")
    assert.strictEqual(yield* joins(sharing, { ...sharing, plane: testing("a") }), "apart")
    assert.strictEqual(
      yield* joins({ ...sharing, plane: testing("a") }, { ...sharing, plane: testing("b") }),
      "apart"
    )
    assert.strictEqual(yield* joins(sharing, { ...sharing, organisation: "acme" }), "apart")
    assert.strictEqual(yield* joins(sharing, { ...sharing, callerKey: "another" }), "apart")
  })

  it.scoped("includes the caller's telemetry preference, because it is sent to IAM", function* () {
    assert.strictEqual(yield* joins(sharing, sharing, [true, false]), "apart")
    assert.strictEqual(yield* joins(sharing, sharing, [false, false]), "joined")
  })

  it.scoped(
    "refuses a caller key in flight with other content as 409, whatever the telemetry preference",
    function* () {
      const other = { ...sharing, content: "other" }
      assert.strictEqual(yield* joins(sharing, other), "IdempotencyConflict")
      assert.strictEqual(yield* joins(sharing, other, [true, false]), "IdempotencyConflict")
    }
  )

  it.scoped("allows the same caller key in another operation or another plane", function* () {
    const other = { ...sharing, content: "other" }
    assert.strictEqual(yield* joins(sharing, { ...other, operation: "logout" }), "apart")
    assert.strictEqual(yield* joins(sharing, { ...other, plane: testing("a") }), "apart")
  })

  it.scoped("has no caller key for reads, which never conflict", function* () {
    const read: Sharing = { operation: "introspect", plane, content: "one" }
    assert.strictEqual(yield* joins(read, { ...read, content: "two" }), "apart")
    assert.strictEqual(yield* joins(read, { ...read }), "joined")
  })

  it.scoped("starts nothing for a conflict, and allows the key again after the first request", () =>
    Effect.gen(function* () {
      const { executeOnce } = yield* Idempotency
      const work = yield* makeWork
      const first = yield* Effect.fork(executeOnce(sharing)(work.run))
      yield* work.begun
      const other = executeOnce({ ...sharing, content: "other" })(work.run)
      assert.instanceOf(yield* Effect.flip(other), IdempotencyConflict)
      assert.strictEqual(work.state.executions, 1)
      yield* work.letGo
      yield* Fiber.join(first)
      assert.strictEqual(yield* other, 2)
    }).pipe(Effect.provide(Idempotency.Default))
  )
})
