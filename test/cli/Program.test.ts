import { execFileSync, spawnSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { beforeAll, describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { root, start } from "../support/Process.ts"
import { run } from "./Harness.ts"

const program = "dist/cli.js"

beforeAll(() => {
  execFileSync(process.execPath, ["scripts/build.mjs", "--if-needed"], { cwd: root })
})

/** Runs the program as a process with its output in a pipe. */
const spawned = (args: ReadonlyArray<string>, environment: Readonly<Record<string, string>> = {}) => {
  const { status, stderr, stdout } = spawnSync(process.execPath, [program, ...args], {
    cwd: root,
    env: { PATH: process.env.PATH ?? "", ...environment },
    encoding: "utf8"
  })
  return { exit: status, out: stdout, err: stderr }
}

describe("music-backend", () => {
  it.effect("shows its help without a command, or with a group alone", () =>
    Effect.gen(function* () {
      const top = yield* run([], {})
      expect(top.exit).toBe(0)
      for (const name of [
        "serve",
        "check",
        "config",
        "reports list",
        "deliveries retry",
        "webhooks list",
        "backup"
      ])
        expect(top.out).toMatch(new RegExp(`^ +- ${name} .*[A-Z]`, "m"))
      const group = yield* run(["reports"], {})
      expect([group.exit, group.out]).toEqual([
        0,
        expect.stringMatching(/^ +- retry .* {2}Delivers a report again/m)
      ])
    })
  )

  it.effect("names the arguments and explains each option in the help of a command", () =>
    Effect.gen(function* () {
      const { exit, out } = yield* run(["reports", "show", "--help"], {})
      expect(exit).toBe(0)
      expect(out).toContain("show [--json] <id>")
      expect(out).toContain("one JSON document on standard output")
    })
  )

  it.effect("exits with 64 after a usage error, with one line and the next step", () =>
    Effect.gen(function* () {
      const wrong = [
        { args: ["nope"], err: "music-backend: unknown command: nope. See music-backend --help." },
        {
          args: ["reports", "nope"],
          err: "music-backend: unknown command: reports nope. See music-backend --help."
        },
        {
          args: ["--json", "check"],
          err: "music-backend: unknown command: --json check. See music-backend --help."
        },
        { args: ["reports", "show"], err: "music-backend: Missing argument <id>. See music-backend --help." },
        {
          args: ["check", "--jsn"],
          err: "music-backend: Received unknown argument: '--jsn'. See music-backend --help."
        },
        {
          args: ["reports", "list", "--status", "lost"],
          err: "music-backend: Expected one of the following cases: stored, filed. See music-backend --help."
        }
      ]
      for (const { args, err } of wrong)
        expect(yield* run(args, {})).toMatchObject({ exit: 64, out: "", err })
    })
  )

  it("as a process prints its version, and its errors on standard error without a stack", () => {
    const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
    expect(spawned(["--version"])).toEqual({ exit: 0, out: `${version}\n`, err: "" })
    const refused = spawned(["deliveries", "list"], { MUSIC_DATABASE_PATH: "/nowhere/music.sqlite" })
    expect(refused.exit).toBe(69)
    expect(refused.out).toBe("")
    expect(refused.err).toMatch(
      /^music-backend: SQLite database \/nowhere\/music\.sqlite does not exist\. .*\n$/
    )
  })

  it("ends without an error when its reader closes the pipe, as head does", () => {
    const { stderr, stdout } = spawnSync("sh", ["-c", `${process.execPath} ${program} openapi | head -c 9`], {
      cwd: root,
      encoding: "utf8"
    })
    expect(stdout).toBe('{\n  "open')
    expect(stderr).toBe("")
  })

  it("serve lists bad settings and exits with 78, as the server alone does", () => {
    const { err, exit } = spawned(["serve"], { MUSIC_BIND: "nowhere" })
    expect(exit).toBe(78)
    expect(err.trim().split("\n")).toContain("music-backend: MUSIC_IAM_URL: is required")
    expect(err).not.toContain("    at ")
  })

  it("sandbox shows its guide, and exits with 0 on SIGTERM", async () => {
    const { child, ended, says } = start(process.execPath, [program, "sandbox"], {})
    try {
      await says(/The whole scenario/)
      child.kill("SIGTERM")
      expect(await ended).toEqual({ code: 0, signal: null })
    } finally {
      child.kill("SIGKILL")
    }
  })
})

describe("The bundle", () => {
  /** The text of all modules that a run of the entry can load. */
  const reachable = (entry: string): string => {
    const seen = new Map<string, string>()
    const queue = [join(root, entry)]
    for (let file = queue.pop(); file !== undefined; file = queue.pop()) {
      if (seen.has(file)) continue
      const text = readFileSync(file, "utf8")
      seen.set(file, text)
      const folder = join(file, "..")
      for (const [, target = ""] of text.matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]+\.js)"/g))
        queue.push(join(folder, target))
    }
    return [...seen.values()].join("\n")
  }

  it("of the server contains neither the sandbox nor the command line", () => {
    const server = reachable("dist/main.js")
    expect(server).toContain("MUSIC_IAM_URL")
    expect(server).not.toContain("/_sandbox/")
    expect(server).not.toContain("Wizard Mode")
    expect(reachable(program)).toContain("/_sandbox/")
  })
})
