/** Sessions in files, as their user sees them: private, whole, and every failure with its reason and its file. */
import { execFile } from "node:child_process"
import { chmod, mkdir, readdir, stat, symlink, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { inspect, promisify } from "node:util"
import * as FastCheck from "effect/FastCheck"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { fileSessionStore } from "../../../client/node.ts"
import { type Built, scratch } from "../support/Built.ts"
import { storedSession } from "../support/ClientWorld.ts"

let made: Built
beforeEach(async () => {
  made = await scratch()
})
afterEach(() => made.remove())

const slot = "production-1"
const name = `session-${slot}.json`
const session = storedSession(slot)
const second = { ...session, refresh_token: "ort_2" }
const file = () => join(made.folder, name)
const storeOf = (directory = made.folder) => fileSessionStore({ directory })
const { signal } = new AbortController()

/** Every use of a store. */
const usesOf = (store: ReturnType<typeof fileSessionStore>) => [
  () => store.load(slot),
  () => store.save(slot, session),
  () => store.probe?.(slot, session),
  () => store.clear(slot),
  () => store.lock?.acquire(slot, signal)
]

describe("The file store", () => {
  it("keeps a session in a private file of a private folder, and no other file", async () => {
    const directory = join(made.folder, "deep", "undefined-music", "nullable")
    const store = storeOf(directory)
    expect(await store.load(slot)).toBeUndefined()
    await store.save(slot, session)
    await store.save(slot, second)
    expect(await store.load(slot)).toEqual(second)
    expect(await readdir(directory)).toEqual([name])
    expect((await stat(directory)).mode & 0o777).toBe(0o700)
    expect((await stat(join(directory, name))).mode & 0o777).toBe(0o600)
    await store.clear(slot)
    await store.clear(slot)
    expect(await readdir(directory)).toEqual([])
  })

  it("removes the temporary file of a crash during a save, and probes without a change", async () => {
    const store = storeOf()
    await writeFile(`${file()}.0.tmp`, "half of a tok")
    await store.save(slot, session)
    await store.probe?.(slot, second)
    expect(await store.load(slot)).toEqual(session)
    expect(await readdir(made.folder)).toEqual([name])
  })

  it("does not replace another session than the named one, or none; a spoiled file may be replaced", async () => {
    const store = storeOf()
    const locked = { reason: "locked" }
    await expect(store.save(slot, second, "ort_1")).rejects.toMatchObject(locked)
    await store.save(slot, session)
    await expect(store.save(slot, second, "ort_0")).rejects.toMatchObject(locked)
    await expect(store.save(slot, second, null)).rejects.toMatchObject(locked)
    expect(await store.load(slot)).toEqual(session)
    expect(await readdir(made.folder)).toEqual([name])
    await store.save(slot, second, "ort_1")
    expect(await store.load(slot)).toEqual(second)
    await writeFile(file(), "{")
    await store.save(slot, session, "ort_0")
    expect(await store.load(slot)).toEqual(session)
  })
})

describe("A failure of the file store", () => {
  it("of a file that holds no session is corrupt: it names the file and quotes nothing of it", async () => {
    const store = storeOf()
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
    const property = FastCheck.asyncProperty(text, async (content) => {
      await writeFile(file(), content)
      const problem = await store.load(slot).catch((cause: unknown) => cause)
      const facts = { name: "SessionStoreError", reason: "corrupt", path: file(), retryable: false }
      const hint = "Log in, which replaces the file, or log out, which removes it."
      expect(problem).toMatchObject({ ...facts, hint })
      expect(inspect(problem, { depth: 10 })).not.toMatch(/o[ar]t_/)
    })
    await FastCheck.assert(property, { numRuns: 60 })
    await store.clear(slot)
    expect(await store.load(slot)).toBeUndefined()
  })

  it("of a folder that is a file names the folder, in every use", async () => {
    const directory = join(made.folder, "file")
    await writeFile(directory, "")
    for (const use of usesOf(storeOf(directory)))
      await expect(use()).rejects.toMatchObject({
        name: "SessionStoreError",
        reason: "misconfigured",
        retryable: false,
        path: expect.stringContaining(directory)
      })
  })

  it.each<readonly [string, () => Promise<unknown>]>([
    ["a folder", () => mkdir(file())],
    ["a pipe", () => promisify(execFile)("mkfifo", [file()])],
    ["a device", () => symlink("/dev/zero", file())]
  ])(
    "of %s at the place of the session's file is reported at once, and leaves no other file",
    async (_, put) => {
      await put()
      await expect(storeOf().load(slot)).rejects.toMatchObject({ reason: "misconfigured", path: file() })
      if (_ === "a folder")
        await expect(storeOf().save(slot, session)).rejects.toMatchObject({ path: file() })
      expect(await readdir(made.folder)).toEqual([name])
    }
  )

  const useElsewhere = async (words: ReadonlyArray<string>, user: object = {}): Promise<unknown> => {
    const program = fileURLToPath(new URL("../programs/store-user.ts", import.meta.url))
    const [command = "", ...more] = [...words, process.execPath, "--import", "tsx", program]
    const { stdout } = await promisify(execFile)(
      command,
      [...more, made.folder, JSON.stringify(session)],
      user
    )
    return JSON.parse(stdout)
  }

  it("of a disk that takes no byte has a path, and leaves only the session", async () => {
    await storeOf().save(slot, session)
    const facts = { name: "SessionStoreError", reason: "no_space", retryable: true, code: "EFBIG" }
    const message = `No space is left to store the session: ${file()} (EFBIG).`
    expect(await useElsewhere(["sh", "-c", 'ulimit -f 0; exec "$0" "$@"'])).toMatchObject({
      lock: { ...facts, path: join(made.folder, `session-${slot}.lock`) },
      probe: { ...facts, path: file(), message },
      save: { ...facts, path: file(), message }
    })
    expect(await readdir(made.folder)).toEqual([name])
    expect(await storeOf().load(slot)).toEqual(session)
  })

  it("of a folder without permission is no loss: the session stays", async () => {
    await storeOf().save(slot, session)
    // Root may do everything, so another user tries.
    const user = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}
    await chmod(made.folder, 0o500)
    const path = expect.stringContaining(made.folder)
    const facts = { reason: "permission", retryable: false, code: "EACCES", path }
    expect(await useElsewhere([], user)).toMatchObject({ lock: facts, probe: facts, save: facts })
    await chmod(made.folder, 0o700)
    expect(await storeOf().load(slot)).toEqual(session)
  })
})

describe("Any other value than a folder's path rejects each use, never the construction:", () => {
  const unset = ["", "/", "../", "a/", "C:\\"].flatMap((before) => [
    `${before}undefined`,
    `${before}null/music`
  ])
  it.each([...unset, "", " ", undefined, null, 7, {}, [], true, new URL("file:///tmp")])(
    "%o",
    async (value) => {
      // A program without a type checker may pass any value.
      for (const use of usesOf(storeOf(value === undefined ? (null as never) : (value as string))))
        await expect(use()).rejects.toMatchObject({
          name: "SessionStoreError",
          reason: "misconfigured",
          retryable: false,
          message: expect.stringContaining("directory")
        })
    }
  )
})
