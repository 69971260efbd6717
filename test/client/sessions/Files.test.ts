/** Sessions in files: spoiled ones are healed or named, nothing of another owner is lost, and a broken lock costs no session. */
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest"
import { fileSessionStore } from "../../../client/node.ts"
import { type Built, scratch } from "../support/Built.ts"
import {
  failure,
  json,
  life,
  loggedIn,
  makeClient,
  makeService,
  openLock,
  pairOf,
  storeWith
} from "../support/ClientWorld.ts"

let made: Built
beforeEach(async () => {
  made = await scratch()
})
afterEach(async () => {
  vi.restoreAllMocks()
  await made.remove()
})

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

describe.each([
  ["an empty file", ""],
  ["half a session", '{"version":1,"access_tok'],
  ["bytes of another kind", "\u0000\u0001"],
  ["a list", "[]"],
  ["null", "null"],
  ["a text", '"session"'],
  ["another object", '{"hello":"world"}'],
  ["another version", '{"version":2}'],
  ["a session without its refresh token", '{"version":1,"access_token":"oat_1"}']
])("A session file that is %s", (kind, text) => {
  const spoiled = () => changed((path) => writeFile(path, text))
  const reason = kind === "another version" ? "misconfigured" : "corrupt"

  it("is named by calls, which keep it", async () => {
    const { client, path, requests } = await spoiled()
    const error = { code: "store_failed", retryable: false, details: { reason } }
    for (const call of [client.me(), client.session(), client.request("GET", "/x")])
      expect(await call).toMatchObject({ ok: false, error })
    expect(await client.status()).toMatchObject({ state: "unknown", error: { code: "store_failed" } })
    expect(requests).toEqual([])
    expect(await readFile(path, "utf8")).toBe(text)
  })

  it("is removed by a logout that forgets", async () => {
    const { client, events } = await spoiled()
    expect(await client.logout({ forget: true })).toMatchObject({
      ok: true,
      value: { revoked: false, healed: true }
    })
    expect(await readdir(made.folder)).toEqual([])
    expect(events.map(({ type }) => type)).toContain("session_healed")
  })

  if (reason === "misconfigured") return
  it("is replaced by a login and removed by a logout, which say so", async () => {
    const { client, events, path, requests } = await spoiled()
    expect(await client.login("oac_2")).toMatchObject({ ok: true, value: { healed: true } })
    expect(events.map(({ type }) => type)).toEqual(["request", "response", "session_healed", "logged_in"])
    expect(requests).toHaveLength(1)
    expect(await client.me()).toMatchObject({ ok: true })
    expect(await client.login("oac_2")).toMatchObject({ ok: true, value: { healed: false } })
    await writeFile(path, text)
    events.length = 0
    requests.length = 0
    expect(await client.logout()).toMatchObject({ ok: true, value: { revoked: false, healed: true } })
    // The store names the file of a text that is no object; the client itself has found the others.
    expect(events).toMatchObject([{ type: "session_healed", ...(text === "" ? { path } : {}) }])
    expect(requests).toEqual([])
    expect(await client.session()).toMatchObject({ ok: true, value: null })
  })
})

describe("A session file is refused and kept, and nothing is sent:", () => {
  const with_ =
    (more: object): Change =>
    (path, session) =>
      writeFile(path, JSON.stringify({ ...session, ...more }))
  it.each<readonly [string, Change]>([
    ["of a newer version", with_({ version: 2 })],
    ["of a newer version in another form", (path) => writeFile(path, '{"version":3,"sessions":[]}')],
    ["of another slot", with_({ slot: "production-of-another-server" })],
    ["of another plane", with_({ testing_environment_id: crypto.randomUUID() })],
    ["in whose place is a folder", (path) => rm(path).then(() => mkdir(path))]
  ])("one %s", async (_, change) => {
    const { client, events, path, requests } = await changed(change)
    const before = await readFile(path, "utf8").catch(() => "a folder")
    const error = { code: "store_failed", retryable: false, details: { reason: "misconfigured" } }
    for (const call of [client.login("oac_2"), client.logout(), client.me()])
      expect(await call).toMatchObject({ ok: false, error })
    expect(await readFile(path, "utf8").catch(() => "a folder")).toBe(before)
    expect([...requests, ...events]).toEqual([])
  })
})

describe("A spoiled session", () => {
  it("that another program has repaired is not healed again", async () => {
    const { path } = await changed(async () => undefined)
    const good = await readFile(path, "utf8")
    await writeFile(path, "")
    const inner = storeOfFolder()
    const lock = {
      acquire: async (slot: string, signal: AbortSignal) => {
        await writeFile(path, good)
        return inner.lock?.acquire(slot, signal) ?? expect.unreachable("the store has a lock")
      }
    }
    const { client, events } = makeClient({ sessionStore: { ...inner, lock } })
    expect(await client.login("oac_1")).toMatchObject({ ok: true, value: { healed: false } })
    expect(events).toEqual([])
  })

  it("is no cause of an error, which would quote it", async () => {
    const sessionStore = storeWith(() => ({ load: async () => JSON.parse('{"refresh_token":"ort_secret') }))
    const { error } = await makeClient({ sessionStore }).client.session()
    expect(error).toMatchObject({ details: { reason: "corrupt" } })
    expect(error?.cause).toBeUndefined()
  })
})

describe("A broken lock", () => {
  it("lets two refreshes run with one key, and both programs continue with the session", async () => {
    // The tokens of the locks that this process holds (FileLock.ts): none is found, as in another container with the same host name.
    const held: unknown = Reflect.get(globalThis, Symbol.for("music-client/held-file-locks"))
    if (!(held instanceof Set)) return expect.unreachable("the file lock has no registry")
    vi.spyOn(held, "has").mockReturnValue(false)
    const service = makeService()
    const first = await loggedIn({ sessionStore: storeOfFolder() }, service)
    const second = makeClient({ sessionStore: storeOfFolder() }, service)
    const refreshes = () => service.requests.filter(({ call }) => call === "refresh")
    const spentUnder = new Map<string, string | null>()
    let together: () => void = () => undefined
    const bothSent = new Promise<void>((resolve) => {
      together = resolve
    })
    service.answers.refresh = async () => {
      const request = refreshes().at(-1)
      const spent = request?.body ?? ""
      const key = request?.headers.get("idempotency-key") ?? null
      if (refreshes().length === 2) together()
      await bothSent
      // As IAM: a spent token under another key ends the family.
      if ((spentUnder.get(spent) ?? key) !== key) return failure(401, "unauthenticated")
      spentUnder.set(spent, key)
      return json(pairOf(spentUnder.size + 1))
    }
    for (const round of [1, 2]) {
      for (const { pass } of [first, second]) pass(life)
      for (const call of [first.client.me(), second.client.me()])
        expect(await call).toMatchObject({ ok: true })
      if (round > 1) continue
      expect(refreshes()).toHaveLength(2)
      expect(new Set(service.keys().slice(0, 2)).size).toBe(1)
    }
    expect((await first.client.session()).value).toEqual((await second.client.session()).value)
    for (const { types } of [first, second]) expect(types()).not.toContain("logged_out")
  })

  it("lets a program that was suspended before its save not replace a newer pair, and continue with that", async () => {
    const inner = storeOfFolder()
    const service = makeService()
    const second = makeClient({ sessionStore: inner, lock: openLock }, service)
    let suspended = false
    const sessionStore = storeWith(
      ({ save }) => ({
        save: async (slot, session, replaced) => {
          if (suspended) {
            suspended = false
            second.pass(life)
            expect(await second.client.me()).toMatchObject({ ok: true })
          }
          return save(slot, session, replaced)
        }
      }),
      inner
    )
    const first = await loggedIn({ sessionStore, lock: openLock }, service)
    first.pass(life)
    suspended = true
    expect(await first.client.me()).toMatchObject({ ok: true })
    // The first refresh of the service had the second pair, the other program's refresh the third.
    expect(service.requests.at(-1)?.headers.get("authorization")).toBe("Bearer oat_3")
    expect((await first.client.session()).value).toEqual((await second.client.session()).value)
  })
})
