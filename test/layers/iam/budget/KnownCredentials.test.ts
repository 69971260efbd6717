import { assert, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type { Place } from "../../../../src/layers/iam/budget/Places.ts"
import {
  makeKnownCredentials,
  secretKey,
  tokenKey
} from "../../../../src/layers/iam/budget/KnownCredentials.ts"
import { makeRefusedCredentials } from "../../../../src/layers/iam/budget/RefusedCredentials.ts"
import { isJustReceived } from "../../../../src/layers/iam/IntrospectionHealth.ts"
import type { TokenGrant } from "../../../../src/services/Iam.ts"
import { type Plane, Production, Testing } from "../../../../src/services/Plane.ts"

const production: Plane = Production()
const testing: Plane = Testing({
  environmentId: "0199a0cc-0000-7000-8000-000000000001",
  secret: Redacted.make("ask"),
  webhookKeyDigest: undefined
})

const reservedPlace: Place = {
  window: "production /oauth/introspect",
  key: undefined,
  share: "essential",
  freeAt: 0,
  ownUntil: Number.POSITIVE_INFINITY,
  reserved: true,
  takenAt: 0
}

/** `oat_1` and `ort_1`. */
const pair = (name: string, replayed = false): TokenGrant => ({
  accessToken: Redacted.make(`oat_${name}`),
  refreshToken: Redacted.make(`ort_${name}`),
  expiresInSeconds: 1_800,
  scopes: [],
  actor: Option.none(),
  organisation: Option.none(),
  replayed
})

const keyOf = (token: string, plane: Plane = production) => tokenKey(plane, Redacted.make(token))

const world = () => {
  const refused = makeRefusedCredentials()
  const cache = makeKnownCredentials(refused)
  const login = (name: string, now = 0) =>
    cache.recordGrant(production, pair(name), Option.none(), reservedPlace, now)
  const refresh = (from: string, to: string, now = 0) =>
    cache.recordGrant(production, pair(to), Option.some(Redacted.make(`ort_${from}`)), reservedPlace, now)
  return { cache, refused, login, refresh }
}

describe("A credential", () => {
  it("has the actor of its first introspection, also when IAM issued it through another process", () => {
    const { cache, login } = world()
    login("1")
    assert.isUndefined(cache.ownerOf(keyOf("oat_1")))
    for (const token of ["oat_1", "oat_elsewhere"]) cache.markLive(keyOf(token), "production si:deejay")
    for (const token of ["oat_1", "ort_1", "oat_elsewhere"])
      assert.strictEqual(cache.ownerOf(keyOf(token)), "production si:deejay")
  })

  it("has a key of plane and digest, without the credential", () => {
    assert.notStrictEqual(keyOf("oat_1"), keyOf("oat_1", testing))
    assert.notStrictEqual(keyOf("oat_1"), secretKey(Redacted.make("oat_1")))
    assert.notInclude(keyOf("oat_1"), "oat_1")
    assert.notInclude(secretKey(Redacted.make("ask_1")), "ask_1")
  })

  it("is known after IAM issued it, accepted it or called it live, until it is forgotten", () => {
    const { cache, login, refresh } = world()
    assert.isFalse(cache.isKnown(keyOf("oat_seen")))
    cache.markLive(keyOf("oat_seen"))
    login("1")
    refresh("elsewhere", "2")
    for (const token of ["oat_seen", "oat_1", "ort_1", "ort_elsewhere", "oat_2", "ort_2"])
      assert.isTrue(cache.isKnown(keyOf(token)), token)
    assert.isFalse(cache.isKnown(keyOf("oat_1", testing)))
    cache.forget(keyOf("oat_1"))
    cache.forget(keyOf("ort_1"))
    for (const token of ["oat_1", "ort_1"]) assert.isFalse(cache.isKnown(keyOf(token)), token)
  })

  it("is refused no longer when IAM issues or accepts it", () => {
    const { login, refresh, refused } = world()
    const back = ["oat_1", "ort_1", "ort_before", "oat_2"]
    for (const token of back) refused.record(keyOf(token), "dead_refresh_token", 0)
    login("1")
    refresh("before", "2")
    for (const token of back) assert.isFalse(refused.isRefused(keyOf(token), 0), token)
  })

  it("is evicted after 20,000 later ones of its kind; refused ones evict no known one", () => {
    const { cache, refused } = world()
    cache.markLive("first")
    cache.markLive("second")
    cache.markLive("first")
    for (let other = 0; other < 20_000; other += 1)
      refused.record(`stranger ${other}`, "bad_testing_secret", 0)
    refused.record("one more", "bad_testing_secret", 0)
    assert.isFalse(refused.isRefused("stranger 0", 0))
    assert.isTrue(refused.isRefused("stranger 1", 0))
    assert.isTrue(cache.isKnown("second"))
    for (let other = 0; other < 19_999; other += 1) cache.markLive(`other ${other}`)
    assert.isFalse(cache.isKnown("second"))
    assert.isTrue(cache.isKnown("first"))
  })
})

describe("The tokens of one login", () => {
  it("are counted together after any number of rotations", () => {
    const { cache, login, refresh } = world()
    login("1")
    refresh("1", "2")
    refresh("2", "3")
    cache.markLive(keyOf("oat_3"))
    login("other")
    const tokens = ["oat_1", "ort_1", "oat_2", "ort_2", "oat_3", "ort_3"]
    assert.strictEqual(new Set(tokens.map((token) => cache.budgetKey(keyOf(token)))).size, 1)
    assert.notStrictEqual(cache.budgetKey(keyOf("oat_other")), cache.budgetKey(keyOf("oat_1")))
    cache.markLive(keyOf("oat_alone"))
    assert.strictEqual(cache.budgetKey(keyOf("oat_alone")), keyOf("oat_alone"))
    assert.strictEqual(cache.budgetKey(keyOf("oat_stranger")), keyOf("oat_stranger"))
  })

  it("may all end with its refresh token, as may those of a login that another process made", () => {
    const { cache, login } = world()
    login("1")
    login("2")
    for (const plane of [production, testing]) cache.markLive(keyOf("oat_elsewhere", plane))
    const ending = (refreshToken: string) => {
      const inFamily = cache.inFamilyOf(production, Redacted.make(refreshToken))
      return ["oat_1", "oat_2", "oat_elsewhere"].filter((token) => inFamily(keyOf(token)))
    }
    deepStrictEqual(ending("ort_1"), ["oat_1", "oat_elsewhere"])
    deepStrictEqual(ending("ort_stranger"), ["oat_elsewhere"])
    assert.isFalse(cache.inFamilyOf(production, Redacted.make("ort_1"))(keyOf("oat_elsewhere", testing)))
  })
})

describe("A refresh that IAM replays after it refused the refresh token once", () => {
  it("stays in the family of the login", () => {
    const { cache, login, refresh } = world()
    login("1")
    refresh("1", "2")
    // For example 409 `idempotency_conflict`.
    cache.forget(keyOf("ort_1"))
    cache.recordGrant(production, pair("2", true), Option.some(Redacted.make("ort_1")), reservedPlace, 0)
    assert.isTrue(cache.inFamilyOf(production, Redacted.make("ort_2"))(keyOf("oat_1")))
    assert.strictEqual(cache.budgetKey(keyOf("ort_2")), cache.budgetKey(keyOf("oat_1")))
  })
})

describe("The access token of a pair that IAM issued", () => {
  const isNew = ({ cache }: ReturnType<typeof world>, token: string, now = 0) => [
    Option.isSome(cache.completingPlace(keyOf(token))),
    isJustReceived(cache.receivedAt(keyOf(token)), now)
  ]

  it("has a reserved place until it is confirmed live, and counts as just received for 60 s", () => {
    const made = world()
    made.login("1", 1_000)
    deepStrictEqual(isNew(made, "oat_1", 60_999), [true, true])
    deepStrictEqual(isNew(made, "oat_1", 61_000), [true, false])
    deepStrictEqual(isNew(made, "ort_1"), [false, false])
    deepStrictEqual(isNew(made, "oat_stranger"), [false, false])
    made.cache.markLive(keyOf("oat_1"))
    deepStrictEqual(isNew(made, "oat_1", 1_000), [false, false])
  })

  it("is as old as its first receipt when IAM replays it, also after a live answer; an ended one is no longer new", () => {
    const made = world()
    made.login("1")
    for (const name of ["1", "elsewhere"])
      made.cache.recordGrant(production, pair(name, true), Option.none(), reservedPlace, 50_000)
    deepStrictEqual(isNew(made, "oat_1", 59_999), [true, true])
    deepStrictEqual(isNew(made, "oat_1", 60_000), [true, false])
    deepStrictEqual(isNew(made, "oat_elsewhere", 109_999), [true, true])
    deepStrictEqual(isNew(made, "oat_elsewhere", 110_000), [true, false])
    const replay = (name: string, now: number) => {
      made.cache.recordGrant(production, pair(name, true), Option.none(), reservedPlace, now)
      return isNew(made, `oat_${name}`, now)
    }
    made.cache.markLive(keyOf("oat_1"))
    deepStrictEqual(replay("1", 59_999), [true, true])
    made.cache.endFamily((key) => key === keyOf("oat_1"))
    deepStrictEqual(replay("1", 59_999), [true, false])
    for (const token of ["oat_2", "ort_3"]) made.cache.end(keyOf(token))
    for (const name of ["2", "3"]) deepStrictEqual(replay(name, 0), [true, false])
  })
})
