/** The formulas of docs/capacity.md against the limiters that they describe, in simulated time. */
import { readFileSync } from "node:fs"
import { assert, describe } from "vitest"
import { it } from "../world/Test.ts"
import { chart } from "../../scripts/capacity/Chart.ts"
import {
  behaviour,
  exchangesPerDay,
  firstToBind,
  iamSeconds,
  inPeak,
  introspectionsPerDay,
  type Limit,
  limits,
  proofsPerDay,
  usual
} from "../../scripts/capacity/Model.ts"
import { production } from "../../src/layers/delivery/DeliveryLimits.ts"
import { type Admission, makeCallWindows } from "../../src/layers/iam/budget/CallWindows.ts"
import type { Share } from "../../src/layers/iam/budget/Shares.ts"
import { seeded } from "../durability/Random.ts"
import { freshStore } from "../layers/store/Stores.ts"

const tolerance = 0.1
const minute = 60_000
const hour = 60 * minute

const limitOf = (name: string): Limit => {
  const found = limits.find((limit) => limit.name === name)
  assert.isDefined(found)
  return found ?? assert.fail(name)
}

interface Call {
  readonly at: number
  readonly user: number
  readonly share: Share
  readonly attempt: number
}

type Place = Extract<Admission, { readonly _tag: "Admitted" }>["place"]

/**
 * The busiest part of a day of so many users, on one path of IAM: calls arrive at random times, and a refused one is repeated
 * twice, after the time that the refusal names. Gives the calls that were admitted in a second, and the part that first was
 * refused.
 */
const simulate = (users: number, perDay: number, essentialPart: number, minutes = 30) => {
  const { next: fraction } = seeded(users)
  const windows = makeCallWindows(usual.iamCallsPerMinute)
  const rate = (users * inPeak(perDay)) / 1_000
  const calls: Array<Call> = []
  for (let at = 0; at < minutes * minute; at += -Math.log(1 - fraction()) / rate)
    calls.push({
      at,
      user: Math.floor(fraction() * users),
      share: fraction() < essentialPart ? "essential" : "known",
      attempt: 1
    })
  const answers: Array<{ readonly at: number; readonly place: Place }> = []
  const warm = 5 * minute
  let [admitted, refused, first] = [0, 0, 0]
  // Times rise, but for the repetitions, which are put in their places.
  for (let call = calls.shift(); call !== undefined; call = calls.shift()) {
    const { at, attempt, share, user } = call
    while ((answers[0]?.at ?? Number.POSITIVE_INFINITY) <= at) {
      const answer = answers.shift()
      if (answer !== undefined) windows.release(answer.place, answer.at)
    }
    const admission = windows.admit(
      { window: "production path", share, key: `user ${user}`, bound: 30, promise: true },
      at
    )
    const counts = at >= warm && at < minutes * minute
    if (counts && attempt === 1) first += 1
    if (admission._tag === "Admitted") {
      if (counts) admitted += 1
      answers.push({ at: at + iamSeconds * 1_000, place: admission.place })
    } else {
      if (counts && attempt === 1) refused += 1
      if (attempt < 3) {
        const again = { ...call, at: at + admission.retryAfterSeconds * 1_000, attempt: attempt + 1 }
        const index = calls.findIndex((later) => later.at > again.at)
        calls.splice(index === -1 ? calls.length : index, 0, again)
      }
    }
  }
  return { perSecond: (admitted * 1_000) / (minutes * minute - warm), refusedPart: refused / first }
}

describe("Capacity", () => {
  const { logins, refreshes } = behaviour
  const paths = [
    ["IAM, introspection", introspectionsPerDay, (logins + refreshes) / introspectionsPerDay],
    ["IAM, tokens", exchangesPerDay, 1],
    ["IAM, proofs", proofsPerDay, 0]
  ] as const
  for (const [name, perDay, essentialPart] of paths)
    it(`${name} binds at the users of its formula`, () => {
      const users = limitOf(name).users(usual)
      const beyond = simulate(Math.round(users * 2), perDay, essentialPart)
      assert.approximately(beyond.perSecond / inPeak(perDay), users, users * tolerance)
      assert.isAbove(beyond.refusedPart, 0.2)
      // Calls come at random times, so a minute can have more of them than the mean.
      assert.isBelow(simulate(Math.round(users * 0.8), perDay, essentialPart).refusedPart, 0.05)
    })

  it.scoped("the tracker files as many reports as its formula says", function* () {
    const { destinations } = yield* freshStore
    const users = limitOf("tracker").users(usual)
    const arriving = Math.round(users * 2 * inPeak(behaviour.reports) * 3_600)
    // One after the other, as the worker does: the next one begins when the last one was sent.
    let now = 0
    let filed = 0
    for (let report = 0; report < arriving && now < hour; report += 1) {
      now = yield* destinations.reserveWrite("tracker", {
        now,
        spacing: production.writeSpacing,
        hourly: production.hourlyWrites
      })
      if (now < hour) filed += 1
    }
    assert.approximately(filed / 3_600 / inPeak(behaviour.reports), users, users * tolerance)
  })

  it("the first limit to bind is IAM's introspection", () => {
    assert.strictEqual(firstToBind(usual)?.limit.name, "IAM, introspection")
  })

  it("the chart and the page are those of the formulas", () => {
    const read = (name: string) => readFileSync(new URL(`../../docs/${name}`, import.meta.url), "utf8")
    assert.strictEqual(read("capacity.svg"), chart())
    const page = read("capacity.md")
    for (const { action, formula, name } of limits) assert.include(page, `| ${name} | ${formula} |`, action)
  })
})
