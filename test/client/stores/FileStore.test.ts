/** Sessions in files, as their user sees them: private, whole, and every failure with its reason and its file. */
import { execFile } from "node:child_process"
import { chmod, readdir, stat, symlink, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { inspect, promisify } from "node:util"
import { beforeAll, describe, expect, it } from "vitest"
import { fileSessionStore } from "../../../client/node.ts"
import { bundle, root } from "../../world/Fleet.ts"
import { eachFolder, storedSession } from "../support/ClientWorld.ts"

let bundles: ReadonlyArray<string>
beforeAll(async () => {
  bundles = await Promise.all(["index", "node"].map((name) => bundle(join(root, `client/${name}.ts`))))
})
const made = eachFolder()

const run = promisify(execFile)
const requiring =
  "const [{ createMusicClient }, { fileSessionStore }] = process.argv.slice(2, 4).map(require)"
const slot = "production-1"
const name = `session-${slot}.json`
const session = storedSession(slot)
const second = { ...session, refresh_token: "ort_2" }
const file = () => join(made.folder, name)
const storeOf = (directory = made.folder) => fileSessionStore({ directory })
const refused = { name: "SessionStoreError", reason: "misconfigured", retryable: false }

it("A store that never settles ends a call, not the process", async () => {
  const program = `${requiring}
    const never = () => new Promise(() => {})
    const sessionStore = { load: never, save: never, clear: never }
    const options = { baseUrl: "http://127.0.0.1:1", source: "cli", telemetry: false, deadlineMilliseconds: 200 }
    createMusicClient({ ...options, sessionStore }).me().then(({ error }) => console.log(error.code))`
  const { stdout } = await run(process.execPath, ["-e", program, "-", ...bundles])
  expect(stdout).toBe("store_failed\n")
})

/** Tries each part of a store that writes, and prints how it failed. */
const tryingAll = `${requiring}
  const [directory, text] = process.argv.slice(4)
  const session = JSON.parse(text)
  const store = fileSessionStore({ directory })
  const failed = (error) => ({ ...error, message: error.message })
  const uses = [store.lock.acquire(session.slot, new AbortController().signal), store.probe(session.slot, session)]
  Promise.allSettled([...uses, store.save(session.slot, session)]).then((results) =>
    console.log(JSON.stringify(results.map(({ reason }) => reason && failed(reason)))))`

describe("The file store", () => {
  it("keeps a session in a private file of a private folder, and no other file", async () => {
    const directory = join(made.folder, "deep", "undefined-music", "nullable")
    const store = storeOf(directory)
    expect(await store.load(slot)).toBeUndefined()
    await store.save(slot, session)
    // As after a crash during a save.
    await writeFile(join(directory, `${name}.0.tmp`), "half of a tok")
    await store.save(slot, second)
    await store.probe?.(slot, session)
    expect(await store.load(slot)).toEqual(second)
    expect(await readdir(directory)).toEqual([name])
    expect((await stat(directory)).mode & 0o777).toBe(0o700)
    expect((await stat(join(directory, name))).mode & 0o777).toBe(0o600)
    await store.clear(slot)
    await store.clear(slot)
    expect(await readdir(directory)).toEqual([])
  })

  it("does not replace another session than the named one, or none; a spoiled file may be replaced", async () => {
    const store = storeOf()
    const locked = { reason: "locked" }
    await expect(store.save(slot, second, "ort_1")).rejects.toMatchObject(locked)
    await store.save(slot, session)
    for (const other of ["ort_0", null])
      await expect(store.save(slot, second, other)).rejects.toMatchObject(locked)
    await expect(store.clear(slot, true, "ort_0")).rejects.toMatchObject(locked)
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
    const whole = JSON.stringify(session)
    const [begin, end] = [whole.slice(0, 200), whole.slice(200)]
    const spoiled = ["", "null", `"${whole.slice(0, 5)}"`, whole + whole, `"${"x".repeat(1_100_000)}"`]
    for (const content of [...spoiled, begin, end, `${begin}\u0000${end}`]) {
      await writeFile(file(), content)
      const problem = await storeOf()
        .load(slot)
        .catch((cause: unknown) => cause)
      expect(problem).toMatchObject({ ...refused, reason: "corrupt", path: file() })
      expect(inspect(problem, { depth: 10 })).not.toMatch(/o[ar]t_/)
    }
  })

  it("of something else at the place of the session's file is reported at once", async () => {
    await symlink("/dev/zero", file())
    await expect(storeOf().load(slot)).rejects.toMatchObject({ ...refused, path: file() })
  })

  it.each<readonly [string, number, ReadonlyArray<string>, object]>([
    ["disk that takes no byte", 0o700, ["sh", "-c", 'ulimit -f 0; exec "$0" "$@"'], { reason: "no_space" }],
    ["folder without permission", 0o500, [], { reason: "permission", code: "EACCES" }]
  ])("of a %s names the path and keeps the session", async (_, mode, words, facts) => {
    await storeOf().save(slot, session)
    await chmod(made.folder, mode)
    // Root may do everything, so another user tries.
    const user = mode === 0o500 && process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}
    const given = ["-", ...bundles, made.folder, JSON.stringify(session)]
    const [command = "", ...more] = [...words, process.execPath, "-e", tryingAll, ...given]
    const { stdout } = await run(command, more, user)
    const named = { name: "SessionStoreError", ...facts, path: expect.stringContaining(made.folder) }
    expect(JSON.parse(stdout)).toMatchObject([named, named, named])
    await chmod(made.folder, 0o700)
    expect(await readdir(made.folder)).toEqual([name])
    expect(await storeOf().load(slot)).toEqual(session)
  })

  it.each(["", " ", "~/.silicon", "/undefined", "a/null/music", "C:\\undefined", null, {}])(
    "of any other value than a folder's path rejects each use, never the construction: %o",
    async (value) => {
      // A program without a type checker may pass any value.
      const store = storeOf(value as string)
      const uses = [
        store.load(slot),
        store.save(slot, session),
        store.probe?.(slot, session),
        store.clear(slot),
        store.lock?.acquire(slot, new AbortController().signal)
      ]
      const message = expect.stringContaining("directory")
      for (const result of await Promise.allSettled(uses))
        expect(result).toMatchObject({ status: "rejected", reason: { ...refused, message } })
    }
  )
})
