import { Effect, Fiber, Redacted } from "effect"
import { expect, it as test } from "vitest"
import {
  Idempotency,
  type KeyedOperation,
  type Sharing,
  upstreamKey
} from "../../src/services/combinators/Idempotency.ts"
import { type Plane, Production, Testing } from "../../src/services/Plane.ts"
import { RequestContext } from "../../src/services/RequestContext.ts"
import { makeHold } from "../world/FaultSwitches.ts"
import { settle } from "../world/Sending.ts"
import { sharing } from "../world/Test.ts"

const testing = (environmentId: string): Plane =>
  Testing({ environmentId, secret: Redacted.make("ask_secret"), webhookKeyDigest: undefined })
const plane = Production()

// Another value here breaks every replay in flight across a deployment: a changed vector is a changed contract.
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
test.each(vectors)("upstreamKey is frozen: %s in %j is %s", (operation, where, expected) => {
  expect(upstreamKey(operation, where, Redacted.make("frozen-vector-0001"))).toBe(expected)
})

/** Work that waits until it is released, and counts how often it was started and interrupted. */
const makeWork = Effect.gen(function* () {
  const { held, paused } = yield* makeHold
  const state = { executions: 0, interruptions: 0 }
  const run = Effect.suspend(() => {
    state.executions += 1
    return Effect.as(paused, state.executions)
  }).pipe(Effect.onInterrupt(() => Effect.sync(() => (state.interruptions += 1))))
  return { ...held, state, run }
})

const one: Sharing = { operation: "login", plane, callerKey: "digest-of-key", content: "digest-of-content" }

sharing(Idempotency.Default)("executeOnce", ({ effect }) => {
  effect("shares one execution, which outlasts those who leave, and runs anew after it", function* () {
    const { executeOnce } = yield* Idempotency
    const work = yield* makeWork
    const ask = executeOnce(one)(work.run)
    const first = yield* Effect.fork(ask)
    yield* work.arrived
    const second = yield* Effect.fork(ask)
    yield* settle
    for (const fiber of [first, second]) yield* Fiber.interrupt(fiber)
    const later = yield* Effect.fork(ask)
    yield* settle
    yield* work.release
    expect(yield* Fiber.join(later)).toBe(1)
    expect(work.state).toEqual({ executions: 1, interruptions: 0 })
    expect(yield* executeOnce({ ...one, content: "other" })(work.run)).toBe(2)
  })

  /** How two requests in flight at once are executed; the second may have another telemetry preference. */
  const joins = (left: Sharing, right: Sharing, recording: readonly [boolean, boolean] = [true, true]) =>
    Effect.gen(function* () {
      const { executeOnce } = yield* Idempotency
      const work = yield* makeWork
      const info = yield* RequestContext
      const ask = (how: Sharing, recorded: boolean) =>
        Effect.either(executeOnce(how)(work.run)).pipe(
          Effect.provideService(RequestContext, { ...info, recording: recorded })
        )
      const both = yield* Effect.fork(
        Effect.all([ask(left, recording[0]), ask(right, recording[1])], { concurrency: "unbounded" })
      )
      yield* work.arrived
      yield* settle
      yield* work.release
      const [, second] = yield* Fiber.join(both)
      if (second._tag === "Left") return second.left._tag
      return work.state.executions === 1 ? "joined" : "apart"
    })
  const read: Sharing = { operation: "introspect", plane, content: "one" }
  const at = (environmentId: string): Sharing => ({ ...one, plane: testing(environmentId) })
  const pairs: ReadonlyArray<readonly [string, Sharing, Sharing, (readonly [boolean, boolean])?]> = [
    ["joined", one, { ...one }],
    ["joined", read, { ...read }],
    ["apart", one, { ...one, operation: "refresh" }],
    ["apart", one, at("a")],
    ["apart", at("a"), at("b")],
    ["apart", one, { ...one, callerKey: "another" }],
    // The preference is sent to IAM.
    ["apart", one, one, [true, false]],
    ["idempotency_conflict", one, { ...one, content: "other" }],
    ["idempotency_conflict", one, { ...one, content: "other" }, [true, false]],
    ["apart", one, { ...one, content: "other", operation: "logout" }],
    ["apart", one, { ...at("a"), content: "other" }],
    // A read has no key, and never conflicts.
    ["apart", read, { ...read, content: "two" }]
  ]
  effect.each(pairs)("has %s: %j and %j", function* ([expected, ...given]) {
    expect(yield* joins(...given)).toBe(expected)
  })
})
