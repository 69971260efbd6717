import { execFileSync, spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { beforeAll, describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { CliEnvironment } from "../../src/cli/Environment.ts"
import { runCommand } from "../../src/cli/Program.ts"
import { Screen, type ScreenService } from "../../src/cli/Screen.ts"
import { folder } from "../layers/store/Stores.ts"
import { root, start } from "../world/Fleet.ts"
import { run as runWhole, type Terminal } from "./Harness.ts"

const program = "dist/cli.js"

beforeAll(() => {
  execFileSync(process.execPath, ["scripts/build.mjs", "--if-needed"], { cwd: root })
})

const run = (
  args: ReadonlyArray<string>,
  environment: Readonly<Record<string, string>>,
  terminal: Terminal = {}
) => Effect.map(runWhole(args, environment, terminal), ({ err, exit, out }) => ({ err, exit, out }))

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
  it.effect(
    "shows its help with --help, and as usage errors without a command or with a group alone",
    function* () {
      const top = yield* run(["--help"], {})
      expect(top.exit).toBe(0)
      for (const name of [
        "serve",
        "check",
        "config",
        "reports list",
        "deliveries retry",
        "webhooks list",
        "backup",
        "version",
        "help"
      ])
        expect(top.out).toMatch(new RegExp(`^ +- ${name}\\b[^A-Z]*\\n {6}[A-Z]`, "m"))
      expect(top.out).toContain("--env-file <file>")
      // `music-backend $COMMAND && deploy` deploys nothing when the command is missing.
      expect(yield* run([], {})).toMatchObject({ exit: 64, out: "", err: top.out })
      const group = yield* run(["reports", "--help"], {})
      expect([group.exit, group.out]).toEqual([
        0,
        expect.stringMatching(/^ +- retry .*\n {6}Delivers a report again/m)
      ])
      expect(yield* run(["reports"], {})).toMatchObject({ exit: 64, out: "", err: group.out })
      const command = yield* run(["reports", "list", "-h"], {})
      for (const [args, shown] of [
        [["-h"], top],
        [["help"], top],
        [["help", "reports"], group],
        [["help", "reports", "list"], command],
        [["reports", "list", "--limit", "3", "--help"], command]
      ] as const)
        expect(yield* run(args, {})).toMatchObject({ exit: 0, out: shown.out, err: "" })
      expect((yield* run(["version"], {})).out).toBe((yield* run(["--version"], {})).out)
    }
  )

  it.effect("exits with 64 after a usage error, with one line and the next step", function* () {
    const top = "See music-backend --help."
    const list = "See music-backend reports list --help."
    const wrong: ReadonlyArray<readonly [args: ReadonlyArray<string>, err: string]> = [
      [["nope"], `unknown command: nope. ${top}`],
      [["CHECK"], `unknown command: CHECK. ${top}`],
      [[""], `unknown command:. ${top}`],
      [["reports", "nope"], "unknown command: reports nope. See music-backend reports --help."],
      [["reports", "", "list"], "unknown command: reports. See music-backend reports --help."],
      [["help", "nope"], `unknown command: nope. ${top}`],
      [["help", "--json"], `--json comes before the command: options follow it, and --help does too. ${top}`],
      [
        ["--json", "check"],
        `--json comes before the command: options follow it, and --help does too. ${top}`
      ],
      [["-x", "check"], `-x comes before the command: options follow it, and --help does too. ${top}`],
      [["--", "check"], `-- comes before the command: options follow it, and --help does too. ${top}`],
      [
        ["--help", "check"],
        `--help comes before the command: options follow it, and --help does too. ${top}`
      ],
      [
        ["--version", "check"],
        `--version comes before the command: options follow it, and --version is alone. ${top}`
      ],
      [
        ["reports", "--json", "list"],
        "--json comes before the command: options follow it, and --help does too. See music-backend reports --help."
      ],
      [["reports", "show"], `Missing argument <id>. ${top}`],
      [["reports", "show", "a", "b"], `Received unknown argument: 'b'. ${top}`],
      [["reports", "list", ""], `Received unknown argument: ''. ${top}`],
      [["reports", "list", "--", "--json"], `Received unknown argument: '--json'. ${top}`],
      [["check", "--jsn"], "unknown option: --jsn. See music-backend check --help."],
      [["check", "--version"], "unknown option: --version. See music-backend check --help."],
      [["check", "--wizard"], "unknown option: --wizard. See music-backend check --help."],
      [["check", "--log-level", "all"], "unknown option: --log-level. See music-backend check --help."],
      [["check", "-x"], "unknown option: -x. See music-backend check --help."],
      [["reports", "show", "a", "--nope"], "unknown option: --nope. See music-backend reports show --help."],
      [["reports", "list", "--help", "--nope"], `unknown option: --nope. ${list}`],
      [["reports", "list", "--limit"], `--limit needs a value. ${list}`],
      [["reports", "list", "--limit="], `--limit needs a value. ${list}`],
      [["reports", "list", "--limit", ""], `--limit needs a value. ${list}`],
      [["reports", "list", "--limit", "--json"], `--limit needs a value. ${list}`],
      [["reports", "list", "--limit", "5", "--limit=6"], `--limit is given twice. ${list}`],
      [["reports", "list", "--json", "--json"], `--json is given twice. ${list}`],
      [["reports", "list", "--json=false"], `--json takes no value. ${list}`],
      [["reports", "list", "--status", "lost"], `Expected one of the following cases: stored, filed. ${top}`],
      [["--env-file"], "--env-file needs a file. Write --env-file <file>."],
      [["check", "--env-file", "--json"], "--env-file needs a file. Write --env-file <file>."],
      [["check", "--env-file=a", "--env-file=b"], "--env-file is given twice. Use one file."]
    ]
    for (const [args, err] of wrong)
      expect([args, yield* run(args, {})]).toEqual([
        args,
        { exit: 64, out: "", err: `music-backend: ${err}` }
      ])
  })

  it.effect("reports a defect of its own in one line, and exits with 70", function* () {
    const err: Array<string> = []
    const screen: ScreenService = {
      colours: false,
      columns: undefined,
      watched: false,
      out: () => Effect.dieMessage("a defect\nof two lines"),
      err: (text) => Effect.sync(() => void err.push(text)),
      progress: () => Effect.void
    }
    const exit = yield* runCommand(["version"]).pipe(
      Effect.provideService(Screen, screen),
      Effect.provideService(CliEnvironment, {})
    )
    expect([exit, err.length]).toEqual([70, 1])
    expect(err[0]).toMatch(/^music-backend: internal error: .*a defect\S*\s*of two lines$/)
  })

  it.scoped("reads settings from --env-file in any place; the environment counts first", function* () {
    const place = yield* folder
    const file = join(place, "settings.env")
    writeFileSync(file, "MUSIC_ORG_ID='acme'\nMUSIC_MIN_CLI=\"1.2.3\"\n# MUSIC_BIND=nowhere\n")
    for (const args of [
      ["--env-file", file, "config", "--changed"],
      ["config", `--env-file=${file}`, "--changed"],
      ["config", "--changed", "--env-file", file]
    ]) {
      const { err, exit, out } = yield* run(args, { MUSIC_MIN_CLI: "2.0.0" })
      expect([exit, err]).toEqual([0, expect.stringContaining("does not start")])
      expect(out).toMatch(/^MUSIC_ORG_ID +acme +environment/m)
      expect(out).toMatch(/^MUSIC_MIN_CLI +2\.0\.0 +environment/m)
      expect(out).not.toContain("nowhere")
    }
    for (const [missing, code] of [
      [join(place, "none.env"), "ENOENT"],
      [place, "EISDIR"]
    ] as const)
      expect(yield* run(["check", "--env-file", missing], {})).toMatchObject({
        exit: 78,
        out: "",
        err: expect.stringMatching(
          new RegExp(
            `^music-backend: the file of --env-file cannot be read: ${missing} \\(${code}\\)\\. Correct`
          )
        )
      })
  })

  it("as a process reads --env-file before and after the command; a missing file is refused", () => {
    const place = mkdtempSync(join(tmpdir(), "music-program-"))
    const file = join(place, "settings.env")
    writeFileSync(file, "MUSIC_ORG_ID='acme'\nMUSIC_MIN_CLI='1.2.3'\n")
    for (const args of [
      ["--env-file", file, "config", "--changed"],
      ["config", "--changed", `--env-file=${file}`]
    ]) {
      const { exit, out } = spawned(args, { MUSIC_MIN_CLI: "2.0.0" })
      expect([args, exit, out]).toEqual([args, 0, expect.stringMatching(/^MUSIC_ORG_ID +acme/m)])
      expect(out).toMatch(/^MUSIC_MIN_CLI +2\.0\.0/m)
    }
    // Node 20 to 24 look for `--env-file` behind the script as well, and end with 9.
    const refused = spawned(["config", "--env-file", join(place, "none.env")])
    rmSync(place, { recursive: true })
    expect([9, 78]).toContain(refused.exit)
    expect([refused.out, refused.err]).toEqual(["", expect.stringContaining("none.env")])
  })

  it("as a process prints its version, and its errors on standard error without a stack", () => {
    const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
    const shown = spawned(["--version"])
    expect(shown).toMatchObject({ exit: 0, err: "" })
    expect(shown.out.startsWith(`${version} (build `)).toBe(true)
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
    const file = join(mkdtempSync(join(tmpdir(), "music-program-")), "settings.env")
    writeFileSync(file, "MUSIC_MIN_CLI=newest\n")
    const { err, exit } = spawned(["serve", "--env-file", file], { MUSIC_BIND: "nowhere" })
    rmSync(dirname(file), { recursive: true })
    expect(exit).toBe(78)
    expect(err).toMatch(/^music-backend: MUSIC_MIN_CLI: must be/m)
    expect(err.trim().split("\n")).toContain("music-backend: MUSIC_IAM_URL: is required")
    expect(err).not.toContain("    at ")
  })

  it("sandbox shows its guide, and exits with 0 on SIGTERM", async () => {
    const { child, ended, output, says } = start(process.execPath, [program, "sandbox"], {})
    try {
      const [, consoleUrl] = await says(/^Open (http:\/\/127\.0\.0\.1:\d+) /m)
      await says(/BASE=http:\/\/127\.0\.0\.1:\d+; IAM=http:\/\/127\.0\.0\.1:\d+/)
      await says(/curl .*\$BASE\/api\/v1\/auth\/login/)
      await says(/The whole scenario/)
      expect(output().trimStart()).toMatch(/^Open /)
      const page = await fetch(`${consoleUrl}/console.js`)
      expect((await page.text()).length).toBeGreaterThan(1_000)
      // A tab that stays open does not keep it running.
      const stream = await fetch(`${consoleUrl}/events`)
      expect(stream.status).toBe(200)
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
