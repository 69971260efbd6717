import { spawnSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { beforeAll, describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { folder } from "../layers/store/Stores.ts"
import { root } from "../world/Fleet.ts"
import { testEnvironment } from "../world/Settings.ts"
import { build, program, run, tcpServer } from "./Harness.ts"

beforeAll(build)

/** Runs the program as a process with its output in a pipe. */
const spawned = (args: ReadonlyArray<string>, environment: Readonly<Record<string, string>> = {}) => {
  const { status, stderr, stdout } = spawnSync(process.execPath, [program, ...args], {
    cwd: root,
    env: { PATH: process.env.PATH ?? "", ...environment },
    encoding: "utf8"
  })
  return { exit: status, out: stdout, err: stderr }
}

const environmentFile = Effect.map(folder, (place) => {
  const file = join(place, "settings.env")
  writeFileSync(file, "MUSIC_ORG_ID='acme'\nMUSIC_MIN_CLI=\"1.2.3\"\n# MUSIC_BIND=nowhere\n")
  return { place, file }
})

describe("music-backend", () => {
  it.effect("shows its help and completions; a missing command is a usage error", function* () {
    const command = (line: string) => run(line.split(" "), {})
    const top = yield* command("--help")
    for (const name of ["serve", "check", "config", "reports list", "deliveries retry", "backup", "version"])
      expect(top.out).toMatch(new RegExp(`^ +- ${name}\\b`, "m"))
    expect(top.out).toContain("--env-file")
    const list = yield* command("reports list -h")
    expect([list.exit, list.out]).toEqual([0, expect.stringContaining("--limit n")])
    expect((yield* command("--completions zsh")).out).toContain("'--since[")
    for (const { err, out } of [top, list])
      expect([err, out]).toEqual(["", expect.not.stringContaining("\u001b")])
    // `music-backend $COMMAND && deploy` deploys nothing when the command is missing.
    for (const args of [[], ["reports"]]) expect(yield* run(args, {})).toMatchObject({ exit: 64, out: "" })
    expect((yield* command("version")).out).toBe((yield* command("--version")).out.trim())
  })

  it.effect.each<ReadonlyArray<string>>([
    [""],
    ["reports", "", "list"],
    ["reports", "--json", "list"],
    ["reports", "show"],
    ["reports", "show", "a", "b"],
    ["reports", "list", ""],
    ["check", "--jsn"],
    ["reports", "remove", "--dry-rn", "--reason", "x"],
    ["reports", "remove", "--anonymous", "--reason", "--dry-run"],
    ["backup", "--recrod"],
    ["reports", "list", "--limit"],
    ["reports", "list", "--limit", "--json"],
    ["reports", "list", "--limit", "5", "--limit=6"],
    ["reports", "list", "--since", "7"],
    ["reports", "list", "--since", "11-21"],
    ["reports", "list", "--wizard"],
    ["--env-file"],
    ["check", "--env-file", "--json"],
    ["check", "--env-file=a", "--env-file=b"]
  ])("exits with 64, one line and the next step after a usage error: %j", function* (args) {
    const err = expect.stringMatching(/^music-backend: .*\. See music-backend(?: \w+)? --help\.$/)
    expect(yield* run(args, {})).toMatchObject({ exit: 64, out: "", err })
  })

  it.effect("names the values of an option, and the commands where one is missing or wrong", function* () {
    const wrong = {
      "reports lst": "the commands are export, list, remove, retry, show,",
      reports: "the commands are export, list",
      "--json check": "the commands are backup, check",
      "deliveries list --state foo": "--state is one of waiting, leased",
      "reports list --limit x": "--limit is a number from 1 to 1000",
      "reports list --limit -5": "--limit is a number from 1 to 1000",
      "nope reports": "the commands are backup, check"
    }
    for (const [line, said] of Object.entries(wrong))
      expect((yield* run(line.split(" "), {})).err).toContain(`music-backend: ${said}`)
  })

  it.effect("reports a defect of its own in one line, and exits with 70", function* () {
    const { err, exit } = yield* run(["version"], {}, { out: () => Effect.dieMessage("a defect\nof two") })
    expect([exit, err]).toEqual([
      70,
      expect.stringMatching(/^music-backend: internal error: .*a defect\S*\s*of two$/)
    ])
    expect(err.split("\n")).toHaveLength(1)
  })

  it.scoped("reads settings from --env-file before the command; the environment counts first", function* () {
    const { file, place } = yield* environmentFile
    for (const args of [
      ["--env-file", file, "config", "--changed"],
      [`--env-file=${file}`, "config", "--changed"]
    ]) {
      const { exit, out } = yield* run(args, { MUSIC_MIN_CLI: "2.0.0" })
      expect([exit, out]).toEqual([0, expect.stringMatching(/^MUSIC_ORG_ID +acme +environment/m)])
      expect(out).toMatch(/^MUSIC_MIN_CLI +2\.0\.0 +environment/m)
      expect(out).not.toContain("nowhere")
    }
    const help = yield* run(["--env-file", file, "--help"], {})
    expect(help).toMatchObject({ exit: 0, err: "", out: (yield* run(["--help"], {})).out })
    expect((yield* run(["reports", "list", "--help"], {})).out).toMatch(/^\$ list /m)
    for (const missing of [join(place, "none.env"), place]) {
      const { err, exit } = yield* run(["--env-file", missing, "check"], {})
      expect([exit, err]).toEqual([78, expect.stringContaining(`--env-file cannot be read: ${missing}`)])
    }
  })
})

describe("music-backend as a process", () => {
  it.scopedLive(
    "ends with 69 where another program has the port of the server, and says what to do",
    function* () {
      const { port } = yield* tcpServer()
      const environment = {
        ...testEnvironment,
        MUSIC_BIND: `127.0.0.1:${port}`,
        MUSIC_DATABASE_PATH: join(yield* folder, "music.sqlite")
      }
      expect(spawned(["serve"], environment)).toMatchObject({
        exit: 69,
        err: expect.stringMatching(
          /^music-backend: cannot listen on .*EADDRINUSE.*\. Stop the program .* set MUSIC_BIND to another address\.$/m
        )
      })
    }
  )

  it("prints its version, and its errors on standard error without a stack", () => {
    const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
    const shown = spawned(["--version"])
    expect(shown).toMatchObject({ exit: 0, err: "" })
    expect(shown.out.startsWith(`${version} (build `)).toBe(true)
    const refused = spawned(["deliveries", "list"], { MUSIC_DATABASE_PATH: "/nowhere/music.sqlite" })
    expect(refused).toMatchObject({ exit: 69, out: "", err: expect.stringMatching(/^music-backend: .*\n$/) })
  })
})
