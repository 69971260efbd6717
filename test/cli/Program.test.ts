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

/** As a process of its own, its output in a pipe. */
const spawned = (args: ReadonlyArray<string>, environment: Readonly<Record<string, string>> = {}) => {
  const { status, stderr, stdout } = spawnSync(process.execPath, [program, ...args], {
    cwd: root,
    env: { PATH: process.env.PATH ?? "", ...environment },
    encoding: "utf8"
  })
  return { exit: status, out: stdout, err: stderr }
}

describe("music-backend", () => {
  it.effect("without a command, or with a group alone, shows help and does nothing", () =>
    Effect.gen(function* () {
      const top = yield* run([], {})
      expect(top.exit).toBe(0)
      expect(top.out).toMatch(/^Usage: music-backend <command>$/m)
      for (const name of [
        "serve",
        "check",
        "config",
        "reports",
        "deliveries",
        "webhooks",
        "recipients",
        "backup"
      ])
        expect(top.out).toMatch(new RegExp(`^ {2}${name} +[A-Z]`, "m"))
      const group = yield* run(["reports"], {})
      expect(group.out).toMatch(/^Usage: music-backend reports <command>$/m)
      expect(group.out).toMatch(/^ {2}retry +Delivers a report again/m)
    })
  )

  it.effect("help of a command says its whole name, its arguments and what each option does", () =>
    Effect.gen(function* () {
      const { exit, out } = yield* run(["reports", "export", "--help"], {})
      expect(exit).toBe(0)
      expect(out.split("\n").slice(0, 6)).toEqual([
        "Writes reports with what was reported, one JSON object a line, newest first",
        "",
        "Usage: music-backend reports export [options]",
        "",
        "Options:",
        "  --status stored|filed                               filed: it stands in the tracker"
      ])
      expect(out).toMatch(/^ {2}-o, --output file {2,}into this file/m)
      const shown = yield* run(["reports", "show", "-h"], {})
      expect(shown.out).toMatch(/^Usage: music-backend reports show <id> \[options\]$/m)
    })
  )

  it.effect("used wrongly ends with 64 and one line that says how to go on, and prints nothing else", () =>
    Effect.gen(function* () {
      const wrong = [
        {
          args: ["nope"],
          err: /^music-backend: music-backend has no command nope\. Use one of serve, check, /
        },
        {
          args: ["reports", "nope"],
          err: /reports has no command nope\. Use one of list, show, export, retry\.$/
        },
        {
          args: ["reports", "show"],
          err: /^music-backend: Missing argument <id>\. See music-backend reports show --help\.$/
        },
        {
          args: ["check", "--jsn"],
          err: /Received unknown argument: '--jsn'\. See music-backend check --help\.$/
        },
        {
          args: ["reports", "list", "--status", "lost"],
          err: /stored, filed\. See music-backend reports list --help\.$/
        },
        {
          args: ["--completions", "tcsh"],
          err: /^music-backend: --completions tcsh is no shell that is known\. Use one of bash, zsh, fish\.$/
        }
      ]
      for (const { args, err } of wrong) {
        const ran = yield* run(args, {})
        expect(ran.err).toMatch(err)
        expect([ran.exit, ran.out, ran.err.split("\n").length]).toEqual([64, "", 1])
      }
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

  it("ends quietly when nobody reads on, as before head", () => {
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

  it("sandbox shows its guide, and ends with its signal", async () => {
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

describe("Completions", () => {
  let script = ""
  beforeAll(() => {
    script = spawned(["--completions", "bash"]).out
  })

  const completed = (...words: ReadonlyArray<string>): ReadonlyArray<string> => {
    const shell = `
      eval "$(cat)"
      COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 ))
      _music-backend_bash_completions music-backend "\${COMP_WORDS[COMP_CWORD]}" "\${COMP_WORDS[COMP_CWORD-1]}"
      echo "\${COMPREPLY[*]}"`
    const { stderr, stdout } = spawnSync("bash", ["-c", shell, "bash", "music-backend", ...words], {
      input: script,
      encoding: "utf8"
    })
    expect(stderr).toBe("")
    return stdout.trim().split(" ")
  }

  it("complete commands, their commands, options and choices in bash", () => {
    expect(completed("rep")).toEqual(["reports"])
    expect(completed("reports", "")).toEqual(expect.arrayContaining(["list", "show", "export", "retry"]))
    expect(completed("reports", "list", "--del")).toEqual(["--delivery"])
    expect(completed("deliveries", "list", "--state", "")).toEqual([
      "waiting",
      "leased",
      "unknown",
      "delivered",
      "failed"
    ])
  })

  it.effect("call in zsh and fish only what they define", () =>
    Effect.gen(function* () {
      const zsh = yield* run(["--completions=zsh"], {})
      expect(zsh.out).toMatch(/^#compdef music-backend$/m)
      const called = new Set(zsh.out.match(/(?<=:: :)_[\w-]+/g))
      expect(called.size).toBeGreaterThan(4)
      for (const name of called) expect(zsh.out).toContain(`\n${name}() {`)
      const fish = yield* run(["--completions", "fish"], {})
      expect(fish.out).toMatch(/^complete -c music-backend .* -a "deliveries" /m)
    })
  )
})

describe("The bundle", () => {
  /** Everything that a run from there could ever load. */
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

  it("of the server holds neither the sandbox nor the command line", () => {
    const server = reachable("dist/main.js")
    expect(server).toContain("MUSIC_IAM_URL")
    expect(server).not.toContain("/_sandbox/")
    expect(server).not.toContain("Wizard Mode")
    expect(reachable(program)).toContain("/_sandbox/")
  })
})
