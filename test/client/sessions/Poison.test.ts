/** A success whose session is useless costs no session: the old pair stays, or the same rotation is asked for again. */
import { describe, expect, it } from "vitest"
import type { MusicClient, SessionStore } from "../../../client/index.ts"
import { examples } from "../../../src/http/openapi/Examples.ts"
import { failed, gate, loggedIn, makeClient, ok } from "../support/ClientWorld.ts"
import { changed, failure, json, life, pairOf } from "../support/Service.ts"

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

it.each<readonly [string, (client: Omit<MusicClient, "close">) => Promise<{ readonly ok: boolean }>]>([
  [
    "a report, which is stored unverified while nobody can be asked",
    (client) => client.report({ message: "m" })
  ],
  ["a call that needs no session", (client) => client.request("GET", "/api/v1/version")]
])("The success of %s proves no pair: a spoiled one is asked for again after it", async (_, run) => {
  const { client, events } = await spoiling({ access_token: "oat_x", refresh_token: "ort_x" })
  expect(await run(client)).toMatchObject({ ok: true })
  expect(await client.me()).toMatchObject({ ok: true })
  expect(events.filter(({ type }) => type === "logged_out")).toEqual([])
})

it("A late success with an older pair does not undo a refresh, in a store of one program, which compares nothing", async () => {
  const kept = new Map<string, unknown>()
  const sessionStore: SessionStore = {
    load: async (slot) => kept.get(slot),
    save: async (slot, session) => void kept.set(slot, session),
    clear: async (slot) => void kept.delete(slot)
  }
  const { answers, client, once, pass } = await loggedIn({ sessionStore })
  pass(life)
  const [sent, late] = [gate<void>(), gate<Response>()]
  once("me", () => {
    sent.open()
    return late.opened
  })
  const slow = client.me()
  await sent.opened
  pass(life)
  expect(await client.me()).toMatchObject({ ok: true })
  late.open(json(examples["auth.me"].response))
  expect(await slow).toMatchObject({ ok: true })
  expect([...kept.values()]).toMatchObject([{ refresh_token: "ort_3" }])
  expect(answers).toEqual({})
})

it("A refresh that is answered with the session of another actor leaves the old pair", async () => {
  const { client, once, pass, requests } = await loggedIn()
  once("refresh", () => json(pairOf(7, { actor: { type: "silicon", public_id: "si:other" } })))
  pass(life)
  expect(await client.me()).toMatchObject(broken)
  expect(await client.session()).toMatchObject({ value: { actor: { public_id: "si:deejay" } } })
  expect(await client.me()).toMatchObject({ ok: true })
  expect(requests.at(-1)?.headers.get("authorization")).toBe("Bearer oat_2")
})

it("A logout revokes by the token that was spent for a pair which no call has proven: it ends the session, also when the pair is spoiled", async () => {
  const { answers, client, requests } = await spoiling({ access_token: "oat_x", refresh_token: "ort_x" })
  answers.me = () => failure(403, "forbidden")
  await client.me()
  expect(await client.logout()).toMatchObject({ ok: true, value: { revoked: true } })
  expect(JSON.parse(requests.at(-1)?.body ?? "")).toEqual({ token: "ort_1" })
})
