import { once } from "node:events"
import { copyFileSync, readdirSync, statSync, watch } from "node:fs"
import { dirname, join } from "node:path"
import { beforeAll, describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import { Effect } from "effect"
import { folder, newPath, rawQuery, withStore } from "../layers/store/Stores.ts"
import { build, killedWithScope, program, type Running, start } from "../world/Fleet.ts"
import { waitFor } from "../world/Waiting.ts"
import { tcpServer } from "./Harness.ts"

beforeAll(build)

/** Runs a command as a process until its signal has ended it. */
const interrupted = (
  args: ReadonlyArray<string>,
  environment: Readonly<Record<string, string>>,
  interrupt: (child: Running["child"]) => Promise<unknown>
) =>
  Effect.gen(function* () {
    const running = yield* killedWithScope(() => start(process.execPath, [program, ...args], environment))
    yield* Effect.promise(() => interrupt(running.child))
    return { ...(yield* Effect.promise(() => running.ended)), output: running.output() }
  })

const changeIn = async (folder: string) => {
  const watcher = watch(folder)
  await once(watcher, "change")
  watcher.close()
}

/** A database that takes a while to copy. */
const largeDatabase = Effect.gen(function* () {
  const path = yield* newPath
  yield* withStore(path, ({ check }) => check)
  yield* rawQuery(path, "CREATE TABLE ballast (bytes BLOB)")
  yield* rawQuery(path, "INSERT INTO ballast VALUES (zeroblob(100000000))")
  return path
})

describe("A command that a signal interrupts", () => {
  it.scopedLive("check ends while IAM does not answer, and says so in one line", function* () {
    const { connections, port } = yield* tcpServer()
    const environment = { MUSIC_IAM_URL: `http://127.0.0.1:${port}` }
    const ended = yield* interrupted(["check"], environment, async (child) => {
      await waitFor(() => expect(connections()).toBe(1))
      child.kill("SIGHUP")
    })
    const output = "music-backend: interrupted by SIGHUP\n"
    expect(ended).toEqual({ code: 129, signal: null, output })
  })

  it.scopedLive("backup leaves no partial file, also when the signal is sent twice, as by npm", function* () {
    const environment = { MUSIC_DATABASE_PATH: yield* largeDatabase }
    const copies = yield* folder
    const ended = yield* interrupted(["backup", join(copies, "copy.sqlite")], environment, async (child) => {
      await changeIn(copies)
      expect(readdirSync(copies)[0]).toMatch(/\.partial/)
      child.kill("SIGTERM")
      child.kill("SIGTERM")
    })
    expect([ended.code, ended.output]).toEqual([143, "music-backend: interrupted by SIGTERM\n"])
    expect(readdirSync(copies)).toEqual([])
  })

  it.scopedLive("a killed restore leaves a whole database and private files; another succeeds", function* () {
    const path = yield* largeDatabase
    const place = dirname(path)
    const copy = join(yield* folder, "copy.sqlite")
    copyFileSync(path, copy)
    const restored = (interrupt: (child: Running["child"]) => Promise<unknown>) =>
      interrupted(["restore", "--overwrite", copy], { MUSIC_DATABASE_PATH: path }, interrupt)
    const ended = yield* restored(async (child) => {
      await changeIn(place)
      child.kill("SIGKILL")
    })
    expect(ended.signal).toBe("SIGKILL")
    const left = readdirSync(place).filter((name) => name !== "music.sqlite")
    // A kill that comes late finds the old database under its second name, or the restore complete.
    const known = /^(?:\.music\.sqlite\..+\.partial(?:-journal)?|music\.sqlite\.before-\w+)$/
    expect(left.filter((name) => !known.test(name))).toEqual([])
    for (const name of left.filter((one) => one.startsWith(".")))
      expect(statSync(join(place, name)).mode & 0o777).toBe(0o600)
    expect(yield* rawQuery(path, "PRAGMA integrity_check")).toEqual([{ integrity_check: "ok" }])
    expect((yield* restored(async () => undefined)).code).toBe(0)
    expect(readdirSync(place).some((name) => name.startsWith("music.sqlite.before-"))).toBe(true)
  })
})
