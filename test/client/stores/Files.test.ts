import { execFile } from "node:child_process"
import { chmod, mkdir, readdir, stat, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { inspect, promisify } from "node:util"
import * as FastCheck from "effect/FastCheck"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { fileSessionStore } from "../../../client/node.ts"
import { describeStoreFailure } from "../../../client/failures/StoreFailures.ts"
import { type Built, scratch } from "../support/Built.ts"
import { storedSession } from "../support/StoredSessions.ts"

let made: Built
beforeEach(async () => {
  made = await scratch()
})
afterEach(() => made.remove())

const session = storedSession("production-1")

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

describe("A save of the file store that replaces a session", () => {
  it("fails when the file holds another one, or none, and changes nothing", async () => {
    const store = fileSessionStore({ directory: made.folder })
    const second = { ...session, refresh_token: "ort_2" }
    await expect(store.save("production-1", second, "ort_1")).rejects.toMatchObject({ reason: "locked" })
    await store.save("production-1", session)
    await expect(store.save("production-1", second, "ort_0")).rejects.toMatchObject({ reason: "locked" })
    expect(await store.load("production-1")).toMatchObject({ refresh_token: "ort_1" })
    expect(await readdir(made.folder)).toEqual(["session-production-1.json"])
    await expect(store.save("production-1", second, null)).rejects.toMatchObject({ reason: "locked" })
    await store.save("production-1", second, "ort_1")
    expect(await store.load("production-1")).toMatchObject({ refresh_token: "ort_2" })
  })

  it("replaces a spoiled file", async () => {
    const store = fileSessionStore({ directory: made.folder })
    await writeFile(join(made.folder, "session-production-1.json"), "{")
    await store.save("production-1", session, "ort_0")
    expect(await store.load("production-1")).toMatchObject({ refresh_token: "ort_1" })
  })
})

describe("A failure of the file store", () => {
  const slot = "production-1"
  const file = () => join(made.folder, `session-${slot}.json`)
  const secret = /o[ar]t_/
  const failure = (run: () => Promise<unknown> | undefined): Promise<unknown> =>
    Promise.resolve(run()).then(
      () => "no failure",
      (cause: unknown) => cause
    )

  it("of a file that holds no session is corrupt: it names the file and quotes nothing of it", async () => {
    const store = fileSessionStore({ directory: made.folder })
    const whole = JSON.stringify(session)
    const text = FastCheck.oneof(
      FastCheck.integer({ min: 0, max: whole.length - 1 }).map((length) => whole.slice(0, length)),
      FastCheck.integer({ min: 1, max: whole.length - 1 }).map((start) => whole.slice(start)),
      FastCheck.integer({ min: 0, max: whole.length }).map(
        (at) => `${whole.slice(0, at)}\u0000${whole.slice(at)}`
      ),
      FastCheck.constantFrom("", "null", "1", `"${whole.slice(0, 5)}"`, "\u0000".repeat(500), whole + whole),
      FastCheck.constant(`"${"x".repeat(1_100_000)}"`)
    )
    await FastCheck.assert(
      FastCheck.asyncProperty(text, async (content) => {
        await writeFile(file(), content)
        const problem = await failure(() => store.load(slot))
        expect(problem).toMatchObject({
          name: "SessionStoreError",
          reason: "corrupt",
          path: file(),
          retryable: false,
          hint: "Log in, which replaces the file, or log out, which removes it."
        })
        expect(inspect(problem, { depth: 10 })).not.toMatch(secret)
        expect(describeStoreFailure(problem)).toMatchObject({ reason: "corrupt", path: file() })
      }),
      { numRuns: 60 }
    )
    await store.save(slot, session)
    expect(await store.load(slot)).toEqual(session)
    await writeFile(file(), "{")
    await store.clear(slot)
    expect(await store.load(slot)).toBeUndefined()
  })

  it("of a folder that is a file names the folder, in every use", async () => {
    const directory = join(made.folder, "file")
    await writeFile(directory, "")
    const store = fileSessionStore({ directory })
    const uses = [
      () => store.load(slot),
      () => store.save(slot, session),
      () => store.probe?.(slot, session),
      () => store.clear(slot),
      () => store.lock?.acquire(slot, new AbortController().signal)
    ]
    for (const use of uses) {
      const problem = await failure(use)
      expect(problem).toMatchObject({ name: "SessionStoreError", reason: "misconfigured", retryable: false })
      expect(problem).toMatchObject({ path: expect.stringContaining(directory) })
    }
  })

  it("of a folder at the place of the session's file leaves no temporary file", async () => {
    await mkdir(file())
    const store = fileSessionStore({ directory: made.folder })
    for (const use of [() => store.load(slot), () => store.save(slot, session)])
      expect(await failure(use)).toMatchObject({ reason: "misconfigured", path: file() })
    expect(await readdir(made.folder)).toEqual([`session-${slot}.json`])
  })

  it("of a pipe at that place is reported at once", async () => {
    await promisify(execFile)("mkfifo", [file()])
    const store = fileSessionStore({ directory: made.folder })
    expect(await failure(() => store.load(slot))).toMatchObject({ reason: "misconfigured", path: file() })
  })

  const run = async (
    use: string,
    [command = process.execPath, ...words]: ReadonlyArray<string> = [],
    user: { readonly uid?: number; readonly gid?: number } = {}
  ): Promise<unknown> => {
    const program = fileURLToPath(new URL("../programs/store-user.ts", import.meta.url))
    const order = JSON.stringify({ directory: made.folder, slot, session, use })
    const { stdout } = await promisify(execFile)(command, [...words, "--import", "tsx", program, order], user)
    return JSON.parse(stdout)
  }

  it("of a disk that takes no byte has a path, which the system does not report for a write", async () => {
    const limited = ["sh", "-c", 'ulimit -f 0; exec "$0" "$@"', process.execPath]
    for (const use of ["save", "probe"])
      expect(await run(use, limited)).toMatchObject({
        reason: "no_space",
        retryable: true,
        path: file(),
        code: "EFBIG",
        message: `No space is left to store the session: ${file()} (EFBIG).`
      })
    expect(await run("lock", limited)).toMatchObject({
      reason: "no_space",
      path: join(made.folder, `session-${slot}.lock`)
    })
    expect(await readdir(made.folder)).toEqual([])
  })

  it("of a folder without permission is no loss: the session stays", async () => {
    const store = fileSessionStore({ directory: made.folder })
    await store.save(slot, session)
    // Root may do everything, so another user tries.
    const user = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}
    await chmod(made.folder, 0o500)
    for (const use of ["save", "probe", "lock"])
      expect(await run(use, [], user)).toMatchObject({
        reason: "permission",
        retryable: false,
        code: "EACCES",
        path: expect.stringContaining(made.folder)
      })
    await chmod(made.folder, 0o700)
    expect(await store.load(slot)).toEqual(session)
  })
})

describe("The option directory", () => {
  const unset = FastCheck.tuple(
    FastCheck.constantFrom("", "/", "../", "a/", "C:\\"),
    FastCheck.constantFrom("undefined", "null"),
    FastCheck.constantFrom("", "/", "/music", "\\music")
  ).map((parts) => parts.join(""))
  const wrong = FastCheck.oneof(
    unset,
    FastCheck.constantFrom("", " ", undefined, null, 7, {}, [], true, new URL("file:///tmp"))
  )

  it("is the path of a folder: any other value rejects each use, never the construction", async () => {
    await FastCheck.assert(
      FastCheck.asyncProperty(wrong, async (value) => {
        // A program without a type checker may pass any value.
        const store = fileSessionStore({ directory: value as string })
        const named = {
          name: "SessionStoreError",
          reason: "misconfigured",
          retryable: false,
          message: expect.stringContaining("directory")
        }
        await expect(store.load("slot")).rejects.toMatchObject(named)
        await expect(store.save("slot", session)).rejects.toMatchObject(named)
        await expect(store.probe?.("slot", session)).rejects.toMatchObject(named)
        await expect(store.clear("slot")).rejects.toMatchObject(named)
        const { signal } = new AbortController()
        await expect(store.lock?.acquire("slot", signal)).rejects.toMatchObject(named)
      })
    )
    const missing = undefined as unknown as { readonly directory: string }
    await expect(fileSessionStore(missing).load("slot")).rejects.toMatchObject({ reason: "misconfigured" })
  })

  it("may contain these words", async () => {
    const directory = join(made.folder, "undefined-music", "nullable")
    const store = fileSessionStore({ directory })
    await store.save("slot", session)
    expect(await store.load("slot")).toEqual(session)
  })
})
