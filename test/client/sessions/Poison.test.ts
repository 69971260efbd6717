/** A success whose session is useless costs no session: the old pair stays, or the same rotation is asked for again. */
import { describe, expect, it } from "vitest"
import { failed, loggedIn, makeClient, ok } from "../support/ClientWorld.ts"
import { changed, failure, life } from "../support/Service.ts"

const minute = 60_000
const broken = failed("unexpected_answer")

/** Answers that no client can use. */
const useless: ReadonlyArray<readonly [string, object]> = [
  ["an empty token", { access_token: "" }],
  ["a token with a line break", { refresh_token: "ort_1\nx" }],
  ["masked tokens", { access_token: "***", refresh_token: "***" }],
  ["a token that is masked in part", { refresh_token: "ort_****1" }],
  ["a token that is named as masked", { access_token: "[REDACTED]" }],
  ["a life of 1e300 s", { expires_in: 1e300 }],
  ["a life of 1e9 s", { expires_in: 1e9 }],
  ["no life", { expires_in: 0 }],
  ["more than a store takes", { scope: "x".repeat(1_100_000) }]
]

describe("A useless session in a 200", () => {
  it.each(useless)(
    "of a refresh leaves the old pair, and the next answer is taken: %s",
    async (_, change) => {
      const { again, answers, client, keys, pass, requests } = await loggedIn()
      answers.refresh = changed(change)
      pass(life)
      expect(await client.me()).toMatchObject(broken)
      delete answers.refresh
      requests.length = 0
      expect(await again().me()).toMatchObject(ok)
      expect(requests.map(({ body, headers }) => headers.get("authorization") ?? body)).toEqual([
        JSON.stringify({ refresh_token: "ort_1" }),
        "Bearer oat_2"
      ])
      expect(keys()[0]).toMatch(/^[0-9a-f]{64}$/)
    }
  )

  it.each<readonly [string, object]>([
    ["a masked token", { refresh_token: "***" }],
    ["more than a store takes", { ting: { subscribed: false, error: "\u20ac".repeat(180_000) } }]
  ])("of a login is stored nowhere, and the same token logs in afterwards: %s", async (_, change) => {
    const { answers, client } = makeClient()
    answers.login = changed(change)
    expect(await client.login("oac_1")).toMatchObject(broken)
    expect(await client.session()).toMatchObject({ value: null })
    delete answers.login
    expect(await client.login("oac_1")).toMatchObject(ok)
  })
})

/** A client whose token has expired, and whose next pair is spoiled on its way. */
const spoiling = async (spoiled: object) => {
  const world = await loggedIn()
  world.once("refresh", changed(spoiled))
  world.pass(life)
  return { ...world, refreshes: () => world.requests.filter(({ call }) => call === "refresh") }
}
describe("A pair that was spoiled on its way", () => {
  const both = { access_token: "oat_x", refresh_token: "ort_x" }
  it.each([
    ["both tokens", both],
    ["the access token", { access_token: "oat_x" }],
    ["both tokens, with a short life", { ...both, expires_in: 0.001 }]
  ])("is asked for again under the same key: %s", async (_, spoiled) => {
    const { client, logouts, refreshes } = await spoiling(spoiled)
    expect(await client.me()).toMatchObject(ok)
    const first = refreshes()[0]?.headers.get("idempotency-key")
    const same = refreshes().filter(({ headers }) => headers.get("idempotency-key") === first)
    expect(same.length).toBe(2)
    expect(logouts()).toEqual([])
    expect(await client.me()).toMatchObject(ok)
  })

  it.each([
    [9, true],
    [11, false]
  ])("is asked for again by another program after %i minutes: %s", async (minutes, isKept) => {
    const { again, client, once, pass, refreshes } = await spoiling(both)
    // The first program ends before it has used the pair.
    once("me", () => failure(403, "forbidden"))
    expect(await client.me()).toMatchObject({ ok: false })
    pass(minutes * minute)
    expect(await again().me()).toMatchObject(isKept ? ok : failed("logged_out", "revoked"))
    const asked = refreshes().map(({ body }) => JSON.parse(body).refresh_token)
    expect(asked).toEqual(isKept ? ["ort_1", "ort_1"] : ["ort_1", "ort_x"])
  })
})
