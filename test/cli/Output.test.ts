import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { beforeAll, describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { sampleReport } from "../layers/store/Samples.ts"
import { folder, rawQuery, withStore } from "../layers/store/Stores.ts"
import { root } from "../world/Fleet.ts"
import { build, program } from "./Harness.ts"

beforeAll(build)

/** Runs a line of a shell, in which `music` is the program. */
const shell = (line: string, environment: Readonly<Record<string, string>> = {}) => {
  const { status, stderr, stdout } = spawnSync(
    "bash",
    ["--norc", "-c", `set -o pipefail; music() { "${process.execPath}" ${program} "$@"; }; ${line}`],
    { cwd: root, env: { PATH: process.env.PATH ?? "", ...environment }, encoding: "utf8" }
  )
  return { exit: status, out: stdout, err: stderr }
}

/** A database of `count` reports with `bytes` of content each. */
const databaseOf = (count: number, bytes: number) =>
  Effect.gen(function* () {
    const path = join(yield* folder, "music.sqlite")
    const report = sampleReport()
    const attachments = [{ name: "player.log", content: "x".repeat(bytes) }]
    yield* withStore(path, ({ reports }) =>
      reports.admit({ ...report, content: { ...report.content, attachments } }, false)
    )
    yield* rawQuery(
      path,
      `INSERT INTO reports
        (id, plane, key_digest, content_digest, reporter, content, source, request_id, created_at, marker, bytes)
      WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})
      SELECT 'rep_' || i, plane, 'key' || i, content_digest, reporter, content, source, request_id, i, marker, bytes
      FROM reports, n WHERE id = 'rep_1'`
    )
    return path
  })

const unwritable = /^music-backend: standard output cannot be written: E\w+\. .*\n$/

describe("A failed write to standard output", () => {
  it.scopedLive("is exit code 74 and one line, whatever the command", function* () {
    const environment = { MUSIC_DATABASE_PATH: yield* databaseOf(2, 10) }
    for (const line of ["reports export", "--help"]) {
      const { err, exit } = shell(`music ${line} > /dev/full`, environment)
      expect([line, exit, err]).toEqual([line, 74, expect.stringMatching(unwritable)])
    }
  })

  it.scopedLive("is noticed when only the end of the output does not fit", function* () {
    const path = join(yield* folder, "completions")
    // Ignored, the signal leaves the error of the write: the last one took a part.
    const ended = shell(`trap "" XFSZ; ulimit -f 8; music --completions zsh > ${path}`)
    expect(ended).toMatchObject({ exit: 74, err: expect.stringMatching(unwritable) })
    expect(statSync(path).size).toBe(8 * 1_024)
  })

  it.scopedLive("is quiet, with exit code 141, when the reader has closed the pipe", function* () {
    const environment = { MUSIC_DATABASE_PATH: yield* databaseOf(3, 400_000) }
    const ended = shell("music reports export | head -c 9", environment)
    expect(ended).toEqual({ exit: 141, out: '{"id":"re', err: "" })
  })
})

/** Bytes that a process has read and written, and its processor time. */
const activityOf = (pid: number | undefined) => {
  const [, read = "0", written = "0"] =
    /^rchar: (\d+)\nwchar: (\d+)/.exec(readFileSync(`/proc/${pid}/io`, "utf8")) ?? []
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? []
  return { read: Number(read), written: Number(written), time: Number(fields[11]) + Number(fields[12]) }
}

it.scopedLive(
  "An export waits for a slow reader: it reads no further than a page, and loses nothing",
  function* () {
    const count = 50
    const bytes = 400_000
    const path = yield* databaseOf(count, bytes)
    const child = spawn(process.execPath, [program, "reports", "export"], {
      cwd: root,
      env: { PATH: process.env.PATH, MUSIC_DATABASE_PATH: path },
      stdio: ["ignore", "pipe", "pipe"]
    })
    let err = ""
    child.stderr.on("data", (chunk) => {
      err += chunk
    })
    const closed = once(child, "close")
    // Until it writes, and then does nothing any more.
    let now = activityOf(child.pid)
    for (let idle = 0; idle < 5 || now.written < 1_000; ) {
      yield* Effect.promise(() => sleep(50))
      const before = now
      now = activityOf(child.pid)
      idle = now.time === before.time ? idle + 1 : 0
    }
    // Without waiting it would have read all.
    expect(now.read).toBeLessThan((count * bytes) / 2)
    let lines = 0
    child.stdout.on("data", (chunk: Buffer) => {
      for (const byte of chunk) if (byte === 10) lines += 1
    })
    const [code] = yield* Effect.promise(() => closed)
    expect([code, lines, err]).toEqual([0, count, `Reports written: ${count}\n`])
  }
)
