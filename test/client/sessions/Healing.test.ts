/** A spoiled session file: a login and a logout heal it, other calls name it, and nothing of another owner is lost. */
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { fileSessionStore } from "../../../client/node.ts"
import { startClient } from "../support/RecordingService.ts"

let directory = ""
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "music-healing-"))
})
afterEach(() => rm(directory, { recursive: true, force: true }))

/** A client whose session file has been replaced. */
const spoiled = async (change: (path: string, session: Record<string, unknown>) => Promise<void>) => {
  const parts = startClient({ sessionStore: fileSessionStore({ directory }) })
  await parts.client.login("oac_1")
  const [name = ""] = (await readdir(directory)).filter((file) => file.endsWith(".json"))
  const path = join(directory, name)
  await change(path, JSON.parse(await readFile(path, "utf8")))
  parts.events.length = 0
  parts.requests.length = 0
  return { ...parts, path }
}

const texts: Readonly<Record<string, string>> = {
  "an empty file": "",
  "half a session": '{"version":1,"access_tok',
  "bytes of another kind": "\u0000\u0001",
  "a list": "[]",
  null: "null",
  "a text": '"session"',
  "another object": '{"hello":"world"}',
  "a session without its refresh token": '{"version":1,"access_token":"oat_1"}'
}

describe.each(Object.keys(texts))("A session file with %s", (kind) => {
  const write = (path: string) => writeFile(path, texts[kind] ?? "")

  it("is named by calls, which keep it", async () => {
    const { client, path, requests } = await spoiled(write)
    for (const result of [await client.me(), await client.session(), await client.request("GET", "/x")])
      expect(result).toMatchObject({
        ok: false,
        error: { code: "store_failed", retryable: false, details: { reason: "corrupt" } }
      })
    expect(await client.status()).toMatchObject({ state: "unknown", error: { code: "store_failed" } })
    expect(requests).toEqual([])
    expect(await readFile(path, "utf8")).toBe(texts[kind])
  })

  it("is replaced by a login, which says so", async () => {
    const { client, events, requests } = await spoiled(write)
    expect(await client.login("oac_2")).toMatchObject({ ok: true, value: { healed: true } })
    expect(events.map(({ type }) => type)).toEqual(["request", "response", "session_healed", "logged_in"])
    expect(requests).toHaveLength(1)
    expect(await client.me()).toMatchObject({ ok: true })
    expect(await client.login("oac_2")).toMatchObject({ ok: true, value: { healed: false } })
  })

  it("is removed by a logout, which says so", async () => {
    const { client, events, requests } = await spoiled(write)
    expect(await client.logout()).toMatchObject({ ok: true, value: { revoked: false, healed: true } })
    expect(events.map(({ type }) => type)).toEqual(["session_healed"])
    expect(requests).toEqual([])
    expect(await client.session()).toMatchObject({ ok: true, value: null })
  })
})

it("The event of a healed file names it", async () => {
  const { client, events, path } = await spoiled((file) => writeFile(file, ""))
  await client.logout()
  expect(events).toEqual([{ type: "session_healed", path }])
})

const kept: Readonly<Record<string, (path: string, session: Record<string, unknown>) => Promise<void>>> = {
  "of a newer version": (path, session) => writeFile(path, JSON.stringify({ ...session, version: 2 })),
  "of a newer version in another form": (path) => writeFile(path, '{"version":3,"sessions":[]}'),
  "of another slot": (path, session) =>
    writeFile(path, JSON.stringify({ ...session, slot: "production-of-another-server" })),
  "of another plane": (path, session) =>
    writeFile(path, JSON.stringify({ ...session, testing_environment_id: crypto.randomUUID() }))
}

describe.each(Object.keys(kept))("A session file %s", (kind) => {
  it("is refused and kept, and nothing is sent", async () => {
    const { client, events, path, requests } = await spoiled(kept[kind] ?? (() => Promise.resolve()))
    const before = await readFile(path, "utf8")
    for (const result of [await client.login("oac_2"), await client.logout(), await client.me()])
      expect(result).toMatchObject({
        ok: false,
        error: { code: "store_failed", retryable: false, details: { reason: "misconfigured" } }
      })
    expect(await readFile(path, "utf8")).toBe(before)
    expect([...requests, ...events]).toEqual([])
  })
})

describe("A session file that cannot be read", () => {
  it("spends no token and is kept", async () => {
    const { client, events, path, requests } = await spoiled(async (file) => {
      await rm(file)
      await mkdir(file)
    })
    for (const result of [await client.login("oac_2"), await client.logout(), await client.me()])
      expect(result).toMatchObject({ ok: false, error: { code: "store_failed", details: { path } } })
    expect([...requests, ...events]).toEqual([])
  })

  it("says how long a store did not answer by its deadline", async () => {
    const { client, requests } = startClient({
      deadlineMilliseconds: 50,
      sessionStore: {
        load: () => new Promise(() => undefined),
        save: () => Promise.resolve(),
        clear: () => Promise.resolve()
      }
    })
    for (const result of [await client.me(), await client.session(), await client.login("oac_1")])
      expect(result).toMatchObject({
        ok: false,
        error: { code: "store_failed", retryable: true, details: { reason: "unavailable" } }
      })
    expect(requests).toEqual([])
  })
})

it("A login that finds the file repaired by another program heals nothing", async () => {
  const { client, events, path } = await spoiled(async () => undefined)
  const good = await readFile(path, "utf8")
  await writeFile(path, "")
  const inner = fileSessionStore({ directory })
  const waiting = startClient({
    sessionStore: {
      ...inner,
      lock: {
        acquire: async (slot, signal) => {
          await writeFile(path, good)
          return inner.lock?.acquire(slot, signal) ?? (() => Promise.resolve())
        }
      }
    }
  })
  expect(await waiting.client.login("oac_1")).toMatchObject({ ok: true, value: { healed: false } })
  expect(waiting.events).toEqual([])
  expect(events).toEqual([])
  expect(await client.session()).toMatchObject({ ok: true })
})
