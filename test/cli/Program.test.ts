import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { beforeAll, describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import { Effect } from "effect"
import { call } from "../../sandbox/HttpExchange.ts"
import { sampleReport } from "../layers/store/Samples.ts"
import { folder, withStore } from "../layers/store/Stores.ts"
import { build, environmentOf, killedWithScope, start, upstreams, urlOf } from "../world/Fleet.ts"
import { testEnvironment } from "../world/Settings.ts"
import { run, shell, tcpServer } from "./Harness.ts"

beforeAll(build)

const environmentFile = Effect.map(folder, (place) => {
  const file = join(place, "settings.env")
  writeFileSync(file, "MUSIC_ORG_ID='acme'\nMUSIC_MIN_CLI=\"1.2.3\"\n# MUSIC_BIND=nowhere\n")
  return { place, file }
})

describe("music-backend", () => {
  it.effect("shows its help and completions; a missing command is a usage error", function* () {
    const command = (line: string) => run(line.split(" "), {})
    for (const [line, shown] of [
      ["--help", /--env-file[\s\S]*^ +- serve\b[\s\S]*^ +- reports list\b[\s\S]*^ +- backup\b/m],
      ["reports list -h", /--limit n/],
      ["sandbox --help", /--walk/]
    ] as const) {
      const { err, exit, out } = yield* command(line)
      expect([line, exit, err, out]).toEqual([line, 0, "", expect.not.stringContaining("\u001b")])
      expect(out).toMatch(shown)
    }
    expect((yield* command("--completions zsh")).out).toContain("'--since[")
    // `music-backend $COMMAND && deploy` deploys nothing when the command is missing.
    expect(yield* run([], {})).toMatchObject({ exit: 64, out: "" })
    expect((yield* command("version")).out).toBe((yield* command("--version")).out.trim())
  })

  it.effect("exits with 64, one line and the next step after a usage error", function* () {
    // What the line says, and after what.
    const wrong = {
      "the commands are backup, check": ["", "nope reports", "--json check"],
      "the commands are export, list, remove, retry, show,": ["reports", "reports lst"],
      "--limit is a number from 1 to 1000": ["reports list --limit x", "reports list --limit -5"],
      "--state is one of waiting, leased": ["deliveries list --state foo"],
      "--since 7 is not a time": ["reports list --since 7"],
      "--since 11-21 is not a time": ["reports list --since 11-21"],
      "": [
        ...["reports  list", "reports --json list", "reports show", "reports show a b", "check --jsn"],
        ...["reports remove --anonymous --reason --dry-run", "reports list --limit", "reports list --wizard"],
        ...["reports list --limit 5 --limit=6", "--env-file", "check --env-file --json"],
        "check --env-file=a --env-file=b"
      ]
    }
    for (const [said, lines] of Object.entries(wrong))
      for (const line of lines) {
        const refused = yield* run(line.split(" "), {})
        expect([line, refused]).toMatchObject([line, { exit: 64, out: "" }])
        expect(refused.err).toMatch(/^music-backend: .*\. See music-backend(?: \w+)? --help\.$/)
        expect(refused.err).toContain(`music-backend: ${said}`)
      }
  })

  it.effect("reports a defect of its own in one line, and exits with 70", function* () {
    const { err, exit } = yield* run(["version"], {}, { out: () => Effect.dieMessage("a defect\nof two") })
    expect(exit).toBe(70)
    expect(err).toMatch(/^music-backend: internal error: .*a defect\S*[^\S\n]*of two$/)
  })

  it.scoped("reads settings from --env-file before the command; the environment counts first", function* () {
    const { file, place } = yield* environmentFile
    const { exit, out } = yield* run([`--env-file=${file}`, "config", "--changed"], {
      MUSIC_MIN_CLI: "2.0.0"
    })
    expect([exit, out]).toEqual([0, expect.stringMatching(/^MUSIC_ORG_ID +acme +environment/m)])
    expect(out).toMatch(/^MUSIC_MIN_CLI +2\.0\.0 +environment/m)
    expect(out).not.toContain("nowhere")
    // A byte order mark, as some editors write it, is no part of the first name.
    writeFileSync(file, `\ufeff${readFileSync(file, "utf8")}`)
    const marked = yield* run([`--env-file=${file}`, "config", "--changed"], {})
    expect(marked.out).toMatch(/^MUSIC_ORG_ID +acme +environment/m)
    const help = yield* run(["--env-file", file, "--help"], {})
    expect(help).toMatchObject({ exit: 0, err: "", out: (yield* run(["--help"], {})).out })
    for (const missing of [join(place, "none.env"), place]) {
      const { err, exit } = yield* run(["--env-file", missing, "check"], {})
      expect([exit, err]).toEqual([78, expect.stringContaining(`--env-file cannot be read: ${missing}`)])
    }
  })
})

describe("music-backend as a process", () => {
  it.scopedLive("lists all bad settings at once, without their values, and ends with 78", function* () {
    const file = join(yield* folder, "bad.env")
    writeFileSync(
      file,
      "MUSIC_TING_URL='http://hidden.example'\nMUSIC_DATABASE_URL='postgres://hid#den@db'\n"
    )
    const environment = { MUSIC_BIND: "hidden", MUSIC_IAM_WEBHOOK_SECRET_FILE: join(file, "absent") }
    const { err, exit } = shell(`music --env-file ${file} serve`, environment)
    const lines = [
      "MUSIC_BIND: must be host:port",
      "MUSIC_DATABASE_URL: .*# as %23",
      "MUSIC_IAM_APP_SECRET: is required",
      "MUSIC_IAM_URL: is required",
      "MUSIC_IAM_WEBHOOK_SECRET: the file of MUSIC_IAM_WEBHOOK_SECRET_FILE cannot be read \\(ENOTDIR\\)",
      "MUSIC_TING_URL: must be an https URL"
    ]
    const said = lines.map((line) => expect.stringMatching(`^music-backend: ${line}`))
    expect([exit, err.trim().split("\n").sort()]).toEqual([78, said])
    expect(err).not.toMatch(/hid(?:#|den)/)
  })

  it.scopedLive("receives signals under npm start, and its exit code is npm's", function* () {
    const environment = {
      ...environmentOf(yield* upstreams),
      MUSIC_DATABASE_PATH: join(yield* folder, "music.sqlite")
    }
    const server = yield* killedWithScope(() => start("npm", ["start", "--silent"], environment))
    const base = yield* Effect.promise(() => urlOf(server))
    expect((yield* call(`${base}/healthz`)).status).toBe(200)
    server.child.kill("SIGTERM")
    expect((yield* Effect.promise(() => server.ended)).code).toBe(0)
  })

  it.scopedLive("ends with 69 where another program has its port, and says what to do", function* () {
    const { port } = yield* tcpServer()
    const environment = {
      ...testEnvironment,
      MUSIC_BIND: `127.0.0.1:${port}`,
      MUSIC_DATABASE_PATH: join(yield* folder, "music.sqlite")
    }
    expect(shell("music serve", environment)).toMatchObject({
      exit: 69,
      err: expect.stringMatching(
        /^music-backend: cannot listen on .*EADDRINUSE.*\. Stop the program .* set MUSIC_BIND to another address\.$/m
      )
    })
  })

  it.scopedLive("ends with 74 where its output cannot be written, with 141 without a reader", function* () {
    const path = join(yield* folder, "music.sqlite")
    const attachments = [{ name: "player.log", content: "x".repeat(400_000) }]
    const content = { ...sampleReport().content, attachments }
    yield* withStore(path, ({ reports }) =>
      Effect.forEach(["rep_1", "rep_2", "rep_3"], (id) =>
        reports.admit(sampleReport({ id, keyDigest: id, content }), false)
      )
    )
    const environment = { MUSIC_DATABASE_PATH: path }
    expect(shell("music reports export > /dev/full", environment)).toMatchObject({
      exit: 74,
      err: expect.stringMatching(/^music-backend: standard output cannot be written: E\w+\. .*\n$/)
    })
    const cut = shell("music reports export | head -c 9", environment)
    expect(cut).toEqual({ exit: 141, out: '{"id":"re', err: "" })
  })
})
