/** Sessions in files: spoiled ones are healed or named, nothing of another owner is lost, and a broken lock costs no session. */
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { expect, it } from "vitest"
import { fileSessionStore } from "../../../client/node.ts"
import { eachFolder, failed, loggedIn, makeClient, ok, storeWith } from "../support/ClientWorld.ts"
import { failure, life, makeService, openLock } from "../support/Service.ts"

const made = eachFolder()

const storeOfFolder = () => fileSessionStore({ directory: made.folder })

type Change = (path: string, session: Record<string, unknown>) => Promise<unknown>

/** A client whose session file has been changed. */
const changed = async (change: Change) => {
  const world = await loggedIn({ sessionStore: storeOfFolder() })
  const [name = ""] = await readdir(made.folder)
  const path = join(made.folder, name)
  await change(path, JSON.parse(await readFile(path, "utf8")))
  return { ...world, path }
}

it.each(["", "[]", '{"hello":"world"}', '{"version":1,"access_token":"oat_1"}'])(
  "A session file that holds no session is named by calls, replaced by a login and removed by a logout: %j",
  async (text) => {
    const { client, events, path, requests, types } = await changed((path) => writeFile(path, text))
    const corrupt = failed("store_failed", "corrupt", { retryable: false })
    for (const call of [client.me(), client.session(), client.request("GET", "/x")])
      expect(await call).toMatchObject(corrupt)
    expect(await client.status()).toMatchObject({ state: "unknown", error: corrupt.error })
    expect([requests, await readFile(path, "utf8")]).toEqual([[], text])
    expect(await client.login("oac_2")).toMatchObject({ ok: true, value: { healed: true } })
    expect(types()).toEqual(["request", "response", "session_healed", "logged_in"])
    for (const forget of [false, true]) {
      await writeFile(path, text)
      events.length = 0
      requests.length = 0
      const value = { revoked: false, healed: true }
      expect(await client.logout({ forget })).toMatchObject({ ok: true, value })
      expect([types(), requests]).toEqual([["session_healed"], []])
      expect(await readdir(made.folder)).toEqual([])
    }
  }
)

it("A session file of the first version is loaded, whatever the service's answers have gained since", async () => {
  const tokens = { access_token: "oat_1", refresh_token: "ort_1", expires_in: 1_800, scope: "" }
  const owner = { actor: { type: "silicon", public_id: "si:deejay" }, org_id: "acme", org_ids: ["acme"] }
  const plain = { version: 1, login_key: "key", testing_environment_id: null, ting: { subscribed: true } }
  const { client } = await changed((path, { obtained_at, slot }) =>
    writeFile(path, JSON.stringify({ ...tokens, ...owner, ...plain, slot, obtained_at }))
  )
  expect(await client.me()).toMatchObject(ok)
})

const with_ =
  (more: object): Change =>
  (path, session) =>
    writeFile(path, JSON.stringify({ ...session, ...more }))
it.each<readonly [string, Change]>([
  ["of a newer version", (path) => writeFile(path, '{"version":3,"sessions":[]}')],
  ["of another slot", with_({ slot: "production-of-another-server" })],
  ["of another plane", with_({ testing_environment_id: crypto.randomUUID() })],
  ["in whose place is a folder", (path) => rm(path).then(() => mkdir(path))]
])("A session file is refused and kept, and nothing is sent: one %s", async (_, change) => {
  const { client, events, path, requests } = await changed(change)
  const text = () => readFile(path, "utf8").catch(() => "a folder")
  const before = await text()
  const refused = failed("store_failed", "misconfigured", { retryable: false })
  for (const call of [client.login("oac_2"), client.logout(), client.me()])
    expect(await call).toMatchObject(refused)
  expect(await text()).toBe(before)
  // A file that was removed is a logout elsewhere.
  expect([...requests, ...events.filter(({ type }) => type !== "logged_out")]).toEqual([])
})

it("A session file that is given up is kept aside, until a logout", async () => {
  const { answers, client, pass } = await loggedIn({ sessionStore: storeOfFolder() })
  answers.refresh = () => failure(401, "unauthenticated")
  pass(life)
  expect(await client.me()).toMatchObject(failed("logged_out"))
  const [name = ""] = await readdir(made.folder)
  expect(name).toMatch(/^session-.*\.json\.ended$/)
  expect(JSON.parse(await readFile(join(made.folder, name), "utf8"))).toMatchObject({
    refresh_token: "ort_1"
  })
  expect(await client.session()).toMatchObject({ value: null })
  await client.login("oac_2")
  await client.logout()
  expect(await readdir(made.folder)).toEqual([])
})

it("Clients that share a folder refresh its session once together", async () => {
  const service = makeService()
  const [first, second] = [1, 2].map(() => makeClient({ sessionStore: storeOfFolder() }, service))
  await first?.client.login("oac_1")
  service.requests.length = 0
  for (const one of [first, second]) one?.pass(life)
  const calls = [first, second].flatMap((one) => Array.from({ length: 8 }, () => one?.client.me()))
  for (const result of await Promise.all(calls)) expect(result).toMatchObject(ok)
  expect(service.calls().filter((call) => call === "refresh")).toHaveLength(1)
})

it("A program that was suspended before its save, and so lost its lock, does not replace a newer pair, and continues with that", async () => {
  let suspended = async () => {}
  const sessionStore = storeWith(
    ({ save }) => ({ save: (...given) => suspended().then(() => save(...given)) }),
    storeOfFolder()
  )
  const first = await loggedIn({ sessionStore, lock: openLock })
  const second = makeClient({ sessionStore: storeOfFolder(), lock: openLock }, first.service)
  suspended = async () => {
    suspended = async () => {}
    for (const _ of ["the same pair", "the next one"]) {
      second.pass(life)
      expect(await second.client.me()).toMatchObject(ok)
    }
  }
  first.pass(life)
  expect(await first.client.me()).toMatchObject(ok)
  expect(first.requests.at(-1)?.headers.get("authorization")).toBe("Bearer oat_3")
  expect((await first.client.session()).value).toEqual((await second.client.session()).value)
})
