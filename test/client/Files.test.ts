import { spawnSync } from "node:child_process"
import { readdir, readFile, stat, writeFile } from "node:fs/promises"
import { hostname } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { fileLock, fileSessionStore, type StoredSession } from "../../client/node.ts"
import { type Built, scratch } from "./support/Built.ts"

let made: Built
beforeEach(async () => {
  made = await scratch()
})
afterEach(() => made.remove())

const session: StoredSession = {
  version: 1,
  slot: "production-1",
  access_token: "oat_1",
  refresh_token: "ort_1",
  expires_in: 1800,
  obtained_at: 0,
  scope: "",
  actor: { type: "silicon", public_id: "si:deejay" },
  org_id: "acme",
  org_ids: ["acme"],
  testing_environment_id: null,
  login_key: "key",
  ting: { subscribed: true }
}

const never = new AbortController().signal

describe("The file store", () => {
  it("keeps a session in a private file of a private folder, and no other file", async () => {
    const directory = join(made.folder, "deep", "down")
    const store = fileSessionStore({ directory })
    expect(await store.load("production-1")).toBeUndefined()
    await store.save("production-1", session)
    await store.save("production-1", { ...session, refresh_token: "ort_2" })
    expect(await store.load("production-1")).toMatchObject({ refresh_token: "ort_2" })
    expect(await readdir(directory)).toEqual(["session-production-1.json"])
    expect((await stat(directory)).mode & 0o777).toBe(0o700)
    expect((await stat(join(directory, "session-production-1.json"))).mode & 0o777).toBe(0o600)
    await store.clear("production-1")
    await store.clear("production-1")
    expect(await readdir(directory)).toEqual([])
  })

  it("removes the temporary file of a crash during a save", async () => {
    const store = fileSessionStore({ directory: made.folder })
    const left = join(made.folder, "session-production-1.json.0.tmp")
    await writeFile(left, "half of a tok")
    await store.save("production-1", session)
    expect(await readdir(made.folder)).toEqual(["session-production-1.json"])
  })

  it("probes without changing the session or leaving a file", async () => {
    const store = fileSessionStore({ directory: made.folder })
    await store.save("production-1", session)
    await store.probe?.("production-1", { ...session, refresh_token: "ort_0" })
    expect(await store.load("production-1")).toMatchObject({ refresh_token: "ort_1" })
    expect(await readdir(made.folder)).toEqual(["session-production-1.json"])
  })

  it("rejects an unreadable file, instead of reporting no session", async () => {
    const store = fileSessionStore({ directory: made.folder })
    await writeFile(join(made.folder, "session-production-1.json"), "{")
    await expect(store.load("production-1")).rejects.toThrow()
  })
})

describe("The file lock", () => {
  const pathOf = (slot: string) => join(made.folder, `${slot}.lock`)

  it("has one holder at a time", async () => {
    const lock = fileLock(pathOf)
    let inside = 0
    let most = 0
    await Promise.all(
      Array.from({ length: 12 }, async () => {
        const release = await lock.acquire("slot", never)
        inside += 1
        most = Math.max(most, inside)
        await new Promise((resolve) => setTimeout(resolve, 2))
        inside -= 1
        await release()
        await release()
      })
    )
    expect(most).toBe(1)
    expect(await readdir(made.folder)).toEqual([])
  })

  it("breaks the lock of a dead process at once", async () => {
    const { pid } = spawnSync(process.execPath, ["--version"])
    await writeFile(pathOf("slot"), JSON.stringify({ pid, host: hostname(), token: "gone", beat: "0" }))
    const lock = fileLock(pathOf, { staleMilliseconds: 60_000 })
    const releases = await Promise.race([
      lock.acquire("slot", AbortSignal.timeout(5_000)),
      lock.acquire("slot", AbortSignal.timeout(5_000))
    ])
    await releases()
  })

  it("leaves the lock of another host alone, whatever its process number means here", async () => {
    const { pid } = spawnSync(process.execPath, ["--version"])
    const theirs = JSON.stringify({ pid, host: "another", token: "other", beat: "0" })
    await writeFile(pathOf("slot"), theirs)
    const lock = fileLock(pathOf, { staleMilliseconds: 60_000 })
    await expect(lock.acquire("slot", AbortSignal.timeout(200))).rejects.toThrow()
    expect(await readFile(pathOf("slot"), "utf8")).toBe(theirs)
  })

  it("breaks the lock of a holder without a heartbeat, on any host", async () => {
    await writeFile(pathOf("slot"), JSON.stringify({ pid: 1, host: "another", token: "other", beat: "0" }))
    const lock = fileLock(pathOf, { staleMilliseconds: 80 })
    await (await lock.acquire("slot", AbortSignal.timeout(5_000)))()
  })

  it("breaks it also for callers whose timeout is shorter than that", async () => {
    await writeFile(pathOf("slot"), JSON.stringify({ pid: 1, host: "another", token: "other", beat: "0" }))
    const lock = fileLock(pathOf, { staleMilliseconds: 200 })
    let tries = 0
    const hasty = async (): Promise<() => Promise<void>> => {
      tries += 1
      return lock.acquire("slot", AbortSignal.timeout(50)).catch(hasty)
    }
    await (await hasty())()
    expect(tries).toBeGreaterThan(2)
  })

  it("waits for a live holder, until its signal aborts", async () => {
    const lock = fileLock(pathOf)
    const release = await lock.acquire("slot", never)
    await expect(lock.acquire("slot", AbortSignal.timeout(60))).rejects.toMatchObject({
      name: "TimeoutError"
    })
    await release()
    await (await lock.acquire("slot", never))()
  })

  it("never removes the lock of the next holder", async () => {
    const lock = fileLock(pathOf)
    const release = await lock.acquire("slot", never)
    await writeFile(pathOf("slot"), JSON.stringify({ pid: process.pid, host: hostname(), token: "next" }))
    await release()
    expect(await readFile(pathOf("slot"), "utf8")).toContain("next")
  })
})
