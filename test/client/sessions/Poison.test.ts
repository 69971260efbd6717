/** A pair that looks right and belongs to nothing costs no session: the same rotation is asked for again. */
import { expect, it } from "vitest"
import type { SessionStore } from "../../../client/index.ts"
import { examples } from "../../../src/http/openapi/Examples.ts"
import { failed, gate, loggedIn, ok } from "../support/ClientWorld.ts"
import { changed, failure, json, life } from "../support/Service.ts"

const minute = 60_000

/** A client whose token has expired, and whose next pair belongs to nothing. */
const spoiling = async () => {
  const world = await loggedIn()
  world.once("refresh", changed({ access_token: "oat_x", refresh_token: "ort_x" }))
  world.pass(life)
  return world
}

it.each([
  [9, true],
  [11, false]
])(
  "A pair that was spoiled on its way is asked for again by another program after %i minutes: %s",
  async (minutes, isKept) => {
    const { again, client, once, pass, requests } = await spoiling()
    // The first program ends before it has used the pair.
    once("me", () => failure(403, "forbidden"))
    expect(await client.me()).toMatchObject({ ok: false })
    pass(minutes * minute)
    expect(await again().me()).toMatchObject(isKept ? ok : failed("logged_out", "revoked"))
    const refreshes = requests.filter(({ call }) => call === "refresh")
    const asked = refreshes.map(({ body }) => JSON.parse(body).refresh_token)
    expect(asked).toEqual(isKept ? ["ort_1", "ort_1"] : ["ort_1", "ort_x"])
  }
)

it("The success of a report proves no pair, because it is stored unverified while nobody can be asked: a spoiled one is asked for again", async () => {
  const { client, logouts } = await spoiling()
  expect(await client.report({ message: "m" })).toMatchObject(ok)
  expect(await client.me()).toMatchObject(ok)
  expect(logouts()).toEqual([])
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

it("A logout revokes by the token that was spent for a pair which no call has proven: it ends the session, also when the pair is spoiled", async () => {
  const { answers, client, requests } = await spoiling()
  answers.me = () => failure(403, "forbidden")
  await client.me()
  expect(await client.logout()).toMatchObject({ ok: true, value: { revoked: true } })
  expect(JSON.parse(requests.at(-1)?.body ?? "")).toEqual({ token: "ort_1" })
})
