import { assert, describe, it } from "vitest"
import type { Purpose } from "../../../../src/layers/iam/budget/Purpose.ts"
import { makeMembership, type Share } from "../../../../src/layers/iam/budget/Shares.ts"

const second = 1_000
const network = "203.0.113.1"

describe("The share of a call", () => {
  const purposes: ReadonlyArray<readonly [string, Purpose, boolean, Share]> = [
    ["a refresh with a known token", { credential: "ort", use: "refresh" }, true, "essential"],
    ["a logout with a known token", { credential: "ort", use: "session" }, true, "essential"],
    ["a known testing secret", { credential: "ask", use: "session" }, true, "essential"],
    ["the introspection that completes a login", { credential: "oat", completing: true }, false, "essential"],
    ["an introspection or a proof of a known token", { credential: "oat" }, true, "known"],
    ["the list of Ting's endpoints", {}, false, "known"],
    ["a login from a network without a refused one", { credential: "slt", use: "login" }, false, "known"],
    ["a token that this process does not know", { credential: "oat" }, false, "newcomer"],
    ["a refresh with an unknown token", { credential: "ort", use: "refresh" }, false, "newcomer"],
    ["a testing secret that it does not know", { credential: "ask", use: "session" }, false, "newcomer"]
  ]
  it.each(purposes)("%s", (_, purpose, isKnown, share) => {
    assert.strictEqual(makeMembership({ countAddresses: true }).shareOf(purpose, isKnown, network, 0), share)
  })
})

describe("Refusals of a network", () => {
  const sharesAt = (
    refused: ReadonlyArray<Purpose["use"]>,
    now: number,
    from = network,
    countAddresses = true
  ): readonly [login: Share, token: Share] => {
    const { recordRefusal, shareOf } = makeMembership({ countAddresses })
    for (const use of refused) recordRefusal(use, network, 0)
    return [
      shareOf({ credential: "slt", use: "login" }, false, from, now),
      shareOf({ credential: "oat" }, false, from, now)
    ]
  }
  const six = (use: Purpose["use"]): ReadonlyArray<Purpose["use"]> => Array.from({ length: 6 }, () => use)

  it("change its share from the first refused login and from the sixth refusal on, logins and tokens apart", () => {
    assert.deepStrictEqual(sharesAt(["login"], 0), ["newcomer", "newcomer"])
    assert.deepStrictEqual(sharesAt(six("login"), 0), ["suspect", "newcomer"])
    assert.deepStrictEqual(sharesAt(six("login").slice(1), 0), ["newcomer", "newcomer"])
    assert.deepStrictEqual(sharesAt(six("session"), 0), ["known", "suspect"])
    assert.deepStrictEqual(sharesAt(six("login"), 0, "203.0.113.2"), ["known", "newcomer"])
    assert.deepStrictEqual(sharesAt(six("login"), 0, network, false), ["known", "newcomer"])
  })

  it("are forgotten one by one, every 50 s; a refused login counts for 5 minutes", () => {
    assert.deepStrictEqual(sharesAt(["login"], 300 * second - 1), ["newcomer", "newcomer"])
    assert.deepStrictEqual(sharesAt(["login"], 300 * second), ["known", "newcomer"])
    assert.deepStrictEqual(sharesAt(six("login"), 50 * second - 1), ["suspect", "newcomer"])
    assert.deepStrictEqual(sharesAt(six("login"), 50 * second), ["newcomer", "newcomer"])
    assert.deepStrictEqual(sharesAt(six("login"), 300 * second - 1), ["newcomer", "newcomer"])
    assert.deepStrictEqual(sharesAt(six("login"), 300 * second), ["known", "newcomer"])
  })
})
