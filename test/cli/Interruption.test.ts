import { execFileSync } from "node:child_process"
import { once } from "node:events"
import { copyFileSync, mkdtempSync, readdirSync, rmSync, statSync, watch } from "node:fs"
import { createServer, type Server, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { afterAll, beforeAll, describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { rawQuery, withStore } from "../layers/store/Stores.ts"
import { type Running, root, start } from "../world/Fleet.ts"

const program = "dist/cli.js"
const scratch = mkdtempSync(join(tmpdir(), "music-interruption-"))

beforeAll(() => {
  execFileSync(process.execPath, ["scripts/build.mjs", "--if-needed"], { cwd: root })
})
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

/** Runs a command as a process until its signal has ended it. */
const interrupted = async (
  args: ReadonlyArray<string>,
  environment: Readonly<Record<string, string>>,
  interrupt: (running: Running) => Promise<void>
) => {
  const running = start(process.execPath, [program, ...args], environment)
  try {
    await interrupt(running)
    return { ...(await running.ended), output: running.output() }
  } finally {
    running.child.kill("SIGKILL")
  }
}

/** Accepts connections and never answers. */
const silent = async () => {
  const sockets = new Set<Socket>()
  const server: Server = createServer((socket) => {
    sockets.add(socket)
    socket.on("error", () => undefined)
  }).listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  const port = typeof address === "object" && address !== null ? address.port : 0
  return {
    port,
    connected: once(server, "connection"),
    close: () => {
      for (const socket of sockets) socket.destroy()
      server.close()
    }
  }
}

/** A database of the given size. */
const databaseOf = (megabytes: number) =>
  Effect.gen(function* () {
    const path = join(mkdtempSync(join(scratch, "db-")), "music.sqlite")
    yield* withStore(path, ({ check }) => check)
    yield* rawQuery(path, "CREATE TABLE ballast (bytes BLOB)")
    yield* rawQuery(path, `INSERT INTO ballast VALUES (zeroblob(${megabytes * 1_000_000}))`)
    return path
  })

describe("A command that a signal interrupts", () => {
  it.each([
    ["SIGTERM", 143],
    ["SIGHUP", 129],
    ["SIGINT", 130]
  ] as const)(
    "check ends after %s with %i while IAM does not answer, and reports it in one line",
    async (signal, code) => {
      const upstream = await silent()
      try {
        const ended = await interrupted(
          ["check"],
          { MUSIC_IAM_URL: `http://127.0.0.1:${upstream.port}` },
          async ({ child }) => {
            await upstream.connected
            child.kill(signal)
          }
        )
        expect(ended).toEqual({
          code,
          signal: null,
          output: `music-backend: check was interrupted by ${signal}\n`
        })
      } finally {
        upstream.close()
      }
    }
  )

  it.live("backup leaves no partial file, also when the signal is sent twice, as by npm", function* () {
    const path = yield* databaseOf(100)
    const folder = mkdtempSync(join(scratch, "copies-"))
    const ended = yield* Effect.promise(() =>
      interrupted(
        ["backup", join(folder, "copy.sqlite")],
        { MUSIC_DATABASE_PATH: path },
        async ({ child }) => {
          const watcher = watch(folder)
          await once(watcher, "change")
          watcher.close()
          expect(readdirSync(folder)[0]).toMatch(/\.partial/)
          child.kill("SIGTERM")
          child.kill("SIGTERM")
        }
      )
    )
    expect([ended.code, ended.output]).toEqual([143, "music-backend: backup was interrupted by SIGTERM\n"])
    expect(readdirSync(folder)).toEqual([])
  })

  it.live(
    "a killed restore leaves a whole database and private partial files, and can be repeated",
    function* () {
      const path = yield* databaseOf(100)
      const folder = dirname(path)
      const copy = join(mkdtempSync(join(scratch, "copy-")), "copy.sqlite")
      copyFileSync(path, copy)
      const restore = ["restore", "--overwrite", copy]
      const environment = { MUSIC_DATABASE_PATH: path }
      const ended = yield* Effect.promise(() =>
        interrupted(restore, environment, async ({ child }) => {
          const watcher = watch(folder)
          await once(watcher, "change")
          watcher.close()
          child.kill("SIGKILL")
        })
      )
      expect(ended.signal).toBe("SIGKILL")
      const left = readdirSync(folder).filter((name) => name !== "music.sqlite")
      // A kill that comes late finds the old database under its second name, or the restore complete.
      const known = /^(?:\.music\.sqlite\..+\.partial(?:-journal)?|music\.sqlite\.before-\w+)$/
      expect(left.filter((name) => !known.test(name))).toEqual([])
      for (const name of left.filter((one) => one.startsWith(".")))
        expect(statSync(join(folder, name)).mode & 0o777).toBe(0o600)
      expect(yield* rawQuery(path, "PRAGMA integrity_check")).toEqual([{ integrity_check: "ok" }])
      const again = yield* Effect.promise(() =>
        interrupted(restore, environment, async ({ ended }) => void (await ended))
      )
      expect(again.code).toBe(0)
      expect(readdirSync(folder).some((name) => name.startsWith("music.sqlite.before-"))).toBe(true)
    }
  )
})
