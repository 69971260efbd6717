import { execFile, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { watch } from "node:fs"
import { mkdir, readdir, readFile, readlink, rm, symlink, utimes, writeFile } from "node:fs/promises"
import { hostname } from "node:os"
import { join } from "node:path"
import { performance } from "node:perf_hooks"
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { threadId, Worker } from "node:worker_threads"
import * as FastCheck from "effect/FastCheck"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { fileLock, fileSessionStore, type StoredSession } from "../../../client/node.ts"
import { defaultStaleMilliseconds } from "../../../client/stores/FileLock.ts"
import { type Built, scratch } from "../support/Built.ts"
import { storedSession } from "../support/StoredSessions.ts"
import { waitFor } from "../../support/Waiting.ts"

let made: Built
beforeEach(async () => {
  made = await scratch()
})
afterEach(() => made.remove())

const never = new AbortController().signal

/** Milliseconds: enough for a slow machine, and far below the `staleMilliseconds` of locks that are to be broken at once. */
const soon = 30_000

const pathOf = (slot: string) => join(made.folder, `${slot}.lock`)

const program = fileURLToPath(new URL("../programs/lock-taker.ts", import.meta.url))

interface Order {
  readonly directory: string
  readonly slot: string
  readonly staleMilliseconds?: number
  readonly deadlineMilliseconds: number
  readonly holdMilliseconds: number
  readonly session?: StoredSession
}

/** A process that takes the lock. */
const startTaker = (order: Order) =>
  spawn(process.execPath, ["--import", "tsx", program, JSON.stringify(order)])

/** The first line that a process prints. */
const firstLine = async (taker: ReturnType<typeof startTaker>): Promise<string> => {
  const [chunk] = await once(taker.stdout, "data")
  return String(chunk).trim()
}

/** The lock file of a process of a host that is gone. */
const lostHost = JSON.stringify({ pid: 1, host: "another", thread: 0, token: "other", beat: "000000000007" })

/** Sets the time of the last heartbeat. */
const age = async (path: string, seconds: number) => {
  const time = (performance.timeOrigin + performance.now()) / 1_000 - seconds
  await utimes(path, time, time)
}

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
      lock.acquire("slot", AbortSignal.timeout(soon)),
      lock.acquire("slot", AbortSignal.timeout(soon))
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
    await (await lock.acquire("slot", AbortSignal.timeout(soon)))()
  })

  it("breaks it also for callers whose timeout is shorter than that", async () => {
    await writeFile(pathOf("slot"), JSON.stringify({ pid: 1, host: "another", token: "other", beat: "0" }))
    const lock = fileLock(pathOf, { staleMilliseconds: 4_000 })
    const acquire = () => lock.acquire("slot", AbortSignal.timeout(200))
    for (let tries = 0; tries < 2; tries += 1)
      await expect(acquire()).rejects.toMatchObject({ name: "TimeoutError" })
    // Alone, none of them would observe the holder for long enough.
    const hasty = (): Promise<() => Promise<void>> => acquire().catch(hasty)
    await (await hasty())()
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

describe("The lock file with the own process number", () => {
  const ownFile = (more: object) =>
    `${JSON.stringify({ pid: process.pid, host: hostname(), ...more, token: "before", beat: "000000000003" })}\n`
  const patient = { staleMilliseconds: 60_000 }

  it("is broken at once when no lock of this process has its token: a container was restarted", async () => {
    await writeFile(pathOf("slot"), ownFile({ thread: threadId }))
    await (await fileLock(pathOf, patient).acquire("slot", AbortSignal.timeout(soon)))()
    expect(await readdir(made.folder)).toEqual([])
  })

  it("is broken at once when it is the breaker's file", async () => {
    await writeFile(pathOf("slot"), ownFile({ thread: threadId }))
    await writeFile(`${pathOf("slot")}.break`, ownFile({ thread: threadId }))
    await (await fileLock(pathOf, patient).acquire("slot", AbortSignal.timeout(soon)))()
    expect(await readdir(made.folder)).toEqual([])
  })

  it("counts as alive when another thread wrote it", async () => {
    await writeFile(pathOf("slot"), ownFile({ thread: threadId + 7 }))
    const waited = fileLock(pathOf, patient).acquire("slot", AbortSignal.timeout(300))
    await expect(waited).rejects.toMatchObject({ name: "TimeoutError" })
    await (await fileLock(pathOf, { staleMilliseconds: 80 }).acquire("slot", AbortSignal.timeout(soon)))()
  })

  it("counts as alive while it beats when an older client wrote it", async () => {
    await writeFile(pathOf("slot"), ownFile({}))
    const waited = fileLock(pathOf, patient).acquire("slot", AbortSignal.timeout(300))
    await expect(waited).rejects.toMatchObject({ name: "TimeoutError" })
    await (await fileLock(pathOf, { staleMilliseconds: 80 }).acquire("slot", AbortSignal.timeout(soon)))()
  })

  it("is respected between two copies of the module", async () => {
    const copy = "../../../client/stores/FileLock.ts?copy"
    const second: { readonly fileLock: typeof fileLock } = await import(/* @vite-ignore */ copy)
    expect(second.fileLock).not.toBe(fileLock)
    const release = await fileLock(pathOf).acquire("slot", never)
    const waited = second.fileLock(pathOf, patient).acquire("slot", AbortSignal.timeout(300))
    await expect(waited).rejects.toMatchObject({ name: "TimeoutError" })
    await release()
    await (await second.fileLock(pathOf).acquire("slot", AbortSignal.timeout(soon)))()
  })

  it("is respected between two threads", async () => {
    const order: Order = {
      directory: made.folder,
      slot: "slot",
      deadlineMilliseconds: soon,
      holdMilliseconds: 0
    }
    const load = `import("tsx/esm/api").then((tsx) => tsx.tsImport(${JSON.stringify(program)}, ${JSON.stringify(import.meta.url)}))`
    const worker = new Worker(load, { eval: true, workerData: order })
    expect((await once(worker, "message"))[0]).toBe("held")
    const lock = fileSessionStore({ directory: made.folder }).lock
    await expect(lock?.acquire("slot", AbortSignal.timeout(300))).rejects.toMatchObject({
      name: "TimeoutError"
    })
    worker.postMessage("release")
    await (await lock?.acquire("slot", AbortSignal.timeout(soon)))?.()
    await worker.terminate()
  })
})

describe("The format of a lock file", () => {
  it("has the fields that older clients read, in one line of one length", async () => {
    const release = await fileLock(pathOf).acquire("slot", never)
    const first = await readFile(pathOf("slot"), "utf8")
    expect(JSON.parse(first)).toEqual({
      pid: process.pid,
      host: hostname(),
      thread: threadId,
      token: expect.stringMatching(/^[0-9a-f-]{36}$/),
      beat: "000000000000"
    })
    expect(first.endsWith("}\n")).toBe(true)
    await waitFor(async () => expect(await readFile(pathOf("slot"), "utf8")).not.toBe(first))
    const second = await readFile(pathOf("slot"), "utf8")
    const beat = /"beat":"(0{11}[1-9])"/.exec(second)?.[1] ?? "none"
    expect(second).toBe(first.replace("000000000000", beat))
    await release()
  })

  it("of an older client is read: its dead process is detected at once", async () => {
    const { pid } = spawnSync(process.execPath, ["--version"])
    const token = "c6a1d7a5-5a0e-4b51-9d5f-0c8ba4b9c001"
    await writeFile(
      pathOf("slot"),
      `{"pid":${pid},"host":${JSON.stringify(hostname())},"token":"${token}","beat":"000000000002"}\n`
    )
    await (await fileLock(pathOf, { staleMilliseconds: 60_000 }).acquire("slot", AbortSignal.timeout(soon)))()
  })

  it("may be torn, empty or foreign: the file is stale after its time", async () => {
    const lock = fileLock(pathOf, { staleMilliseconds: 30 })
    const text = FastCheck.oneof(
      FastCheck.constantFrom("", "{", lostHost.slice(0, 20), "null", "[]", "1", `{"pid":1e999,"host":"x"}`),
      FastCheck.string(),
      FastCheck.json(),
      FastCheck.constant("x".repeat(10_000))
    )
    await FastCheck.assert(
      FastCheck.asyncProperty(text, async (content) => {
        await writeFile(pathOf("slot"), content)
        await (await lock.acquire("slot", AbortSignal.timeout(soon)))()
        expect(await readdir(made.folder)).toEqual([])
      }),
      { numRuns: 25 }
    )
  })
})

/** Milliseconds: `staleMilliseconds` for rules that hold whatever it is; twice the time for which the tests wait. */
const distant = 2 * soon

describe.concurrent("A holder on a lost host", () => {
  const inFolder = async (run: (folder: string) => Promise<void>) => {
    const { folder, remove } = await scratch()
    await run(folder)
    await remove()
  }
  const fileIn = (folder: string) => join(folder, "session-slot.lock")

  it("costs a new process one and a half heartbeats when its last one is older than the limit", ({
    expect
  }) =>
    inFolder(async (folder) => {
      await writeFile(fileIn(folder), lostHost)
      await age(fileIn(folder), 36_000)
      const begun = performance.now()
      const lock = fileSessionStore({ directory: folder, staleMilliseconds: distant }).lock
      await (await lock?.acquire("slot", AbortSignal.timeout(soon)))?.()
      expect(performance.now() - begun).toBeGreaterThan(2_900)
      expect(performance.now() - begun).toBeLessThan(soon)
      expect(await readdir(folder)).toEqual([])
    }))

  it("costs no more when it was about to break a lock", ({ expect }) =>
    inFolder(async (folder) => {
      const { lock } = fileSessionStore({ directory: folder })
      const fileOf = (slot: string) => join(folder, `session-${slot}.lock`)
      for (const path of [fileOf("plain"), fileOf("breaking"), `${fileOf("breaking")}.break`]) {
        await writeFile(path, lostHost)
        await age(path, 3_600)
      }
      const timed = async (slot: string) => {
        const begun = performance.now()
        await (await lock?.acquire(slot, AbortSignal.timeout(soon)))?.()
        return performance.now() - begun
      }
      // At the same time, so that a slow machine delays both. One after the other, the two files would cost 3 s more.
      const [plain, breaking] = await Promise.all([timed("plain"), timed("breaking")])
      expect(breaking - plain).toBeLessThan(2_500)
      expect(await readdir(folder)).toEqual([])
    }))

  it("is detected by short-lived processes together", ({ expect }) =>
    inFolder(async (folder) => {
      await writeFile(fileIn(folder), lostHost)
      const order = {
        directory: folder,
        slot: "slot",
        staleMilliseconds: 8_000,
        deadlineMilliseconds: 5_500,
        holdMilliseconds: 0
      }
      // Young until the first process looks at it, however long that one takes to start.
      const steps = setInterval(() => age(fileIn(folder), 0).catch(() => undefined), 50)
      const looked = watch(folder, (_, name) => {
        if (name?.endsWith(".clock") !== true) return
        looked.close()
        clearInterval(steps)
      })
      const lines: Array<string> = []
      while (lines.length < 10 && !lines.includes("held")) lines.push(await firstLine(startTaker(order)))
      expect(lines[0]).toBe("TimeoutError")
      expect(lines).toContain("held")
    }))

  it("is detected when its heartbeat is in the future: the age counts from its first observation", ({
    expect
  }) =>
    inFolder(async (folder) => {
      await writeFile(fileIn(folder), lostHost)
      await age(fileIn(folder), -86_400)
      const staleMilliseconds = 6_000
      const acquire = async () =>
        fileSessionStore({ directory: folder, staleMilliseconds }).lock?.acquire(
          "slot",
          AbortSignal.timeout(staleMilliseconds - 500)
        )
      await expect(acquire()).rejects.toMatchObject({ name: "TimeoutError" })
      await sleep(staleMilliseconds)
      // Its own observation would not be long enough.
      await (await acquire())?.()
    }))

  it("is detected without a file for the time, as fast as one process can", ({ expect }) =>
    inFolder(async (folder) => {
      await writeFile(fileIn(folder), lostHost)
      await age(fileIn(folder), 3_600)
      await mkdir(`${fileIn(folder)}.clock`)
      const lock = fileSessionStore({ directory: folder, staleMilliseconds: 4_000 }).lock
      const begun = performance.now()
      await (await lock?.acquire("slot", AbortSignal.timeout(soon)))?.()
      expect(performance.now() - begun).toBeGreaterThan(3_900)
    }))

  it("is detected with a link at the place of the file for the time, whose target does not change", ({
    expect
  }) =>
    inFolder(async (folder) => {
      const other = join(folder, "other")
      await writeFile(other, "kept")
      await symlink(other, `${fileIn(folder)}.clock`)
      await writeFile(fileIn(folder), lostHost)
      const lock = fileSessionStore({ directory: folder, staleMilliseconds: 3_500 }).lock
      await (await lock?.acquire("slot", AbortSignal.timeout(soon)))?.()
      expect(await readFile(other, "utf8")).toBe("kept")
      expect(await readdir(folder)).toEqual(["other"])
    }))

  it("costs two seconds at most when it was killed before it wrote its name", ({ expect }) =>
    inFolder(async (folder) => {
      await writeFile(fileIn(folder), "")
      const begun = performance.now()
      const acquire = async (): Promise<(() => Promise<void>) | undefined> =>
        fileSessionStore({ directory: folder, staleMilliseconds: distant })
          .lock?.acquire("slot", AbortSignal.timeout(700))
          .catch(acquire)
      await (await acquire())?.()
      expect(performance.now() - begun).toBeGreaterThan(1_900)
      expect(performance.now() - begun).toBeLessThan(soon)
    }))

  it("is never a live one, whatever the clock says", ({ expect }) =>
    inFolder(async (folder) => {
      const holder = startTaker({
        directory: folder,
        slot: "slot",
        deadlineMilliseconds: soon,
        holdMilliseconds: 60_000
      })
      expect(await firstLine(holder)).toBe("held")
      const before: unknown = JSON.parse(await readFile(fileIn(folder), "utf8"))
      const steps = setInterval(() => age(fileIn(folder), 3_600).catch(() => undefined), 50)
      const lock = fileSessionStore({ directory: folder }).lock
      await expect(lock?.acquire("slot", AbortSignal.timeout(6_500))).rejects.toMatchObject({
        name: "TimeoutError"
      })
      clearInterval(steps)
      const after: unknown = JSON.parse(await readFile(fileIn(folder), "utf8"))
      expect(after).toEqual({ ...(before as object), beat: expect.any(String) })
      holder.kill("SIGKILL")
      await once(holder, "exit")
      await (await lock?.acquire("slot", AbortSignal.timeout(soon)))?.()
    }))
})

describe("The path of a lock file", () => {
  const attempt = () => fileLock(pathOf).acquire("slot", AbortSignal.timeout(soon))
  const refused = { name: "SessionStoreError", reason: "misconfigured", retryable: false }

  it("with something else at its place is refused at once", async () => {
    const path = pathOf("slot")
    await symlink(join(made.folder, "nowhere"), path)
    await expect(attempt()).rejects.toMatchObject({ ...refused, path })
    await rm(path)
    await symlink("/dev/zero", path)
    await expect(attempt()).rejects.toMatchObject({ ...refused, path })
    await rm(path)
    await mkdir(path)
    await expect(attempt()).rejects.toMatchObject({ ...refused, path })
    await rm(path, { recursive: true })
    await promisify(execFile)("mkfifo", [path])
    await expect(attempt()).rejects.toMatchObject({ ...refused, path })
  })

  it("of a breaker is named when it is the one in the way", async () => {
    await writeFile(pathOf("slot"), lostHost)
    await symlink(join(made.folder, "nowhere"), `${pathOf("slot")}.break`)
    await expect(attempt()).rejects.toMatchObject({ ...refused, path: `${pathOf("slot")}.break` })
  })

  it("in a missing folder is refused, with the path", async () => {
    const path = join(made.folder, "missing", "slot.lock")
    await expect(fileLock(() => path).acquire("slot", never)).rejects.toMatchObject({
      name: "SessionStoreError",
      reason: "unavailable",
      code: "ENOENT",
      path
    })
  })
})

describe("The option staleMilliseconds", () => {
  it("is 15 s by default", () => {
    expect(defaultStaleMilliseconds).toBe(15_000)
  })

  it("is a positive number: any other value rejects each use, never the construction", async () => {
    const wrong = FastCheck.oneof(
      FastCheck.constantFrom(0, -1, Number.NaN, Number.POSITIVE_INFINITY, null, "15000", {}, [], true),
      FastCheck.double({ max: 0 }),
      FastCheck.string()
    )
    await FastCheck.assert(
      FastCheck.asyncProperty(wrong, async (value) => {
        // A program without a type checker may pass any value.
        const options = { staleMilliseconds: value as number }
        const problem = { name: "SessionStoreError", reason: "misconfigured", retryable: false }
        const named = { ...problem, message: expect.stringContaining("staleMilliseconds") }
        await expect(fileLock(pathOf, options).acquire("slot", never)).rejects.toMatchObject(named)
        const store = fileSessionStore({ directory: made.folder, ...options })
        await expect(store.load("slot")).rejects.toMatchObject(named)
        await expect(store.lock?.acquire("slot", never)).rejects.toMatchObject(named)
        expect(await readdir(made.folder)).toEqual([])
      }),
      { numRuns: 50 }
    )
  })
})

describe("A release that fails", () => {
  it("rejects, leaves no open file, and does not block the next holder", async () => {
    const path = pathOf("slot")
    const lock = fileLock(pathOf, { staleMilliseconds: 60_000 })
    const release = await lock.acquire("slot", never)
    await rm(path)
    await mkdir(path)
    await expect(release()).rejects.toMatchObject({ name: "SessionStoreError", path })
    await release()
    const open = await Promise.all(
      (await readdir("/proc/self/fd").catch(() => [])).map((name) =>
        readlink(`/proc/self/fd/${name}`).catch(() => "")
      )
    )
    expect(open.filter((name) => name.startsWith(path))).toEqual([])
    await rm(path, { recursive: true })
    await (await lock.acquire("slot", AbortSignal.timeout(soon)))()
  })
})

describe("An aborted wait", () => {
  it("rejects with the reason and leaves no lock, also when the lock is free at that moment", async () => {
    await FastCheck.assert(
      FastCheck.asyncProperty(FastCheck.integer({ min: 0, max: 4 }), async (turns) => {
        const lock = fileLock(pathOf)
        const controller = new AbortController()
        const reason = new Error("stop")
        const waited = lock.acquire("slot", controller.signal)
        for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve))
        controller.abort(reason)
        const result = await waited.catch((cause: unknown) => cause)
        if (typeof result === "function") await result()
        else expect(result).toBe(reason)
        expect(await readdir(made.folder)).toEqual([])
      }),
      { numRuns: 40 }
    )
  })
})

describe("A process that is killed", () => {
  const session = storedSession("slot")

  it("at any moment of its work leaves a session and a lock that the next process gets", async () => {
    const directory = join(made.folder, "sessions")
    const store = fileSessionStore({ directory, staleMilliseconds: 4_000 })
    for (let round = 0; round < 6; round += 1) {
      const taker = startTaker({
        directory,
        slot: "slot",
        deadlineMilliseconds: soon,
        holdMilliseconds: 0,
        session
      })
      await firstLine(taker)
      await sleep(Math.random() * 40)
      taker.kill("SIGKILL")
      await once(taker, "exit")
      expect(await store.load("slot")).toEqual(session)
      const release = await store.lock?.acquire("slot", AbortSignal.timeout(soon))
      await store.save("slot", session)
      await release?.()
      expect(await readdir(directory)).toEqual(["session-slot.json"])
    }
  })
})
