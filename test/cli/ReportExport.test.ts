import { execFileSync, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { openOutput } from "../../src/cli/OutputFile.ts"
import { Screen, type ScreenService } from "../../src/cli/Screen.ts"
import { rawQuery, sampleReport, withStore } from "../layers/store/Stores.ts"
import { root, start } from "../support/Process.ts"
import { run } from "./Harness.ts"

const program = "dist/cli.js"
const scratch = mkdtempSync(join(tmpdir(), "music-export-"))

beforeAll(() => {
  execFileSync(process.execPath, ["scripts/build.mjs", "--if-needed"], { cwd: root })
})
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

const freshFolder = Effect.sync(() => mkdtempSync(join(scratch, "out-")))

/** A database of two reports, as large as that. */
const stored = (attachment = "line\n") =>
  Effect.gen(function* () {
    const place = join(mkdtempSync(join(scratch, "db-")), "music.sqlite")
    yield* withStore(place, ({ reports }) =>
      Effect.forEach(["rep_1", "rep_2"], (id) =>
        reports.admit(
          sampleReport({
            id,
            keyDigest: id,
            content: {
              message: "Playback stops.",
              pr: null,
              attachments: [{ name: "a.log", content: attachment }],
              context: null
            }
          }),
          false
        )
      )
    )
    return place
  })

/** A store in which no report can be read. */
const spoil = (place: string) => rawQuery(place, "UPDATE reports SET content = 'no JSON'")

const exported = (place: string, file: string, ...more: ReadonlyArray<string>) =>
  run(["reports", "export", "-o", file, ...more], { MUSIC_DATABASE_PATH: place })

const linesIn = (text: string) =>
  text
    .trimEnd()
    .split("\n")
    .map((line): unknown => JSON.parse(line))

const mute: ScreenService = {
  colours: false,
  columns: undefined,
  watched: false,
  out: () => Effect.void,
  say: () => Effect.void,
  progress: () => Effect.void
}

const both = [{ id: "rep_2" }, { id: "rep_1" }]

describe("reports export", () => {
  it.live("replaces a file by a whole one for its owner only, or leaves it as it was", () =>
    Effect.gen(function* () {
      const place = yield* stored()
      const folder = yield* freshFolder
      const file = join(folder, "reports.jsonl")
      writeFileSync(file, "what was there\n")
      chmodSync(file, 0o644)
      const written = yield* exported(place, file, "--overwrite")
      expect([written.exit, written.err]).toEqual([0, `2 reports written to ${file}`])
      expect(linesIn(readFileSync(file, "utf8"))).toMatchObject(both)
      expect(statSync(file).mode & 0o777).toBe(0o600)

      yield* spoil(place)
      const failed = yield* exported(place, file, "--overwrite")
      expect(failed.exit).not.toBe(0)
      expect(linesIn(readFileSync(file, "utf8"))).toMatchObject(both)
      const fresh = yield* exported(place, join(folder, "other.jsonl"))
      expect(fresh.exit).not.toBe(0)
      expect(readdirSync(folder)).toEqual(["reports.jsonl"])
    })
  )

  it.live("replaces what a link leads to, and keeps the link", () =>
    Effect.gen(function* () {
      const place = yield* stored()
      const folder = yield* freshFolder
      const target = join(folder, "target.jsonl")
      const link = join(yield* freshFolder, "link.jsonl")
      writeFileSync(target, "")
      symlinkSync(target, link)
      expect((yield* exported(place, link)).exit).toBe(69)
      expect((yield* exported(place, link, "--overwrite")).exit).toBe(0)
      expect(lstatSync(link).isSymbolicLink()).toBe(true)
      expect(linesIn(readFileSync(target, "utf8"))).toMatchObject(both)
      expect(readdirSync(dirname(link))).toEqual(["link.jsonl"])
    })
  )

  it.scoped("does not replace unasked what somebody else wrote meanwhile", () =>
    Effect.gen(function* () {
      const folder = yield* freshFolder
      const file = join(folder, "reports.jsonl")
      const failure = yield* Effect.gen(function* () {
        const output = yield* openOutput(file, { overwrite: false })
        yield* output.write("ours\n")
        writeFileSync(file, "theirs\n")
        yield* output.finish
      }).pipe(Effect.scoped, Effect.provideService(Screen, mute), Effect.flip)
      expect(failure.lines).toEqual([`${file} exists`])
      expect(readFileSync(file, "utf8")).toBe("theirs\n")
      expect(readdirSync(folder)).toEqual(["reports.jsonl"])
    })
  )

  it.live("says which file cannot be written", () =>
    Effect.gen(function* () {
      const place = yield* stored()
      const folder = yield* freshFolder
      mkdirSync(join(folder, "taken"))
      for (const file of [join(folder, "taken"), join(folder, "none", "reports.jsonl")]) {
        const { err, exit } = yield* exported(place, file, "--overwrite")
        expect(exit).toBe(69)
        expect(err).toContain(`music-backend: ${file} cannot be written. `)
      }
      expect(readdirSync(folder)).toEqual(["taken"])
    })
  )

  it.live("fails, and leaves nothing, when there is no room for all of it", () =>
    Effect.gen(function* () {
      const place = yield* stored("x".repeat(100_000))
      const file = join(yield* freshFolder, "reports.jsonl")
      // 512 bytes each: enough to open the database, not for the reports.
      const { status, stderr } = spawnSync(
        "sh",
        ["-c", 'ulimit -f 100; exec "$@"', "sh", process.execPath, program, "reports", "export", "-o", file],
        { cwd: root, env: { PATH: process.env.PATH ?? "", MUSIC_DATABASE_PATH: place }, encoding: "utf8" }
      )
      expect(stderr).toContain(`${file} cannot be written. `)
      expect(status).toBe(69)
      expect(readdirSync(dirname(file))).toEqual([])
    })
  )

  it.live("to a device writes through, and leaves it where it is", () =>
    Effect.gen(function* () {
      const place = yield* stored()
      expect((yield* exported(place, "/dev/null")).err).toBe("2 reports written to /dev/null")
      const { err, exit } = yield* exported(place, "/dev/full")
      expect([exit, err]).toEqual([69, expect.stringContaining("/dev/full cannot be written. ")])
      expect(statSync("/dev/full").isCharacterDevice()).toBe(true)
    })
  )

  it.live("to a pipe writes through, and leaves it where it is when it fails", () =>
    Effect.gen(function* () {
      const place = yield* stored("x".repeat(200_000))
      const pipe = join(yield* freshFolder, "pipe")
      execFileSync("mkfifo", [pipe])
      const reader = spawn("cat", [pipe], { stdio: ["ignore", "pipe", "inherit"] })
      const chunks: Array<Buffer> = []
      reader.stdout.on("data", (chunk: Buffer) => chunks.push(chunk))
      const closed = once(reader, "close")
      const written = yield* exported(place, pipe, "--overwrite")
      yield* Effect.promise(() => closed)
      expect([written.exit, written.err]).toEqual([0, `2 reports written to ${pipe}`])
      expect(linesIn(Buffer.concat(chunks).toString("utf8"))).toMatchObject(both)

      yield* spoil(place)
      const drain = spawn("cat", [pipe], { stdio: "ignore" })
      const drained = once(drain, "close")
      expect((yield* exported(place, pipe, "--overwrite")).exit).not.toBe(0)
      yield* Effect.promise(() => drained)
      expect(statSync(pipe).isFIFO()).toBe(true)
    })
  )

  it.live("to a pipe that nobody reads can be interrupted", () =>
    Effect.gen(function* () {
      const place = yield* stored()
      const pipe = join(yield* freshFolder, "pipe")
      execFileSync("mkfifo", [pipe])
      const { child, ended, output, says } = start(
        process.execPath,
        [program, "reports", "export", "-o", pipe],
        { MUSIC_DATABASE_PATH: place }
      )
      try {
        yield* Effect.promise(() => says(/nobody reads/))
        child.kill("SIGTERM")
        expect(yield* Effect.promise(() => ended)).toEqual({ code: 143, signal: null })
        expect(output()).toContain("reports export was interrupted by SIGTERM before its end\n")
        expect(statSync(pipe).isFIFO()).toBe(true)
      } finally {
        child.kill("SIGKILL")
      }
    })
  )

  it.live("to its own standard output is as without a file, wherever that leads", () =>
    Effect.gen(function* () {
      const place = yield* stored()
      const file = join(yield* freshFolder, "reports.jsonl")
      for (const redirection of [`> ${file}`, `| cat > ${file}`]) {
        const { status } = spawnSync(
          "sh",
          ["-c", `${process.execPath} ${program} reports export -o /dev/stdout ${redirection}`],
          { cwd: root, env: { PATH: process.env.PATH ?? "", MUSIC_DATABASE_PATH: place } }
        )
        expect(status).toBe(0)
        expect(linesIn(readFileSync(file, "utf8"))).toMatchObject(both)
      }
      expect(lstatSync("/dev/stdout").isSymbolicLink()).toBe(true)
    })
  )
})
