import { execFileSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { readSettings } from "../../../src/layers/settings/Settings.ts"
import { settingsCatalogue } from "../../../src/layers/settings/SettingsCatalogue.ts"
import { readSettingsInPart } from "../../../src/layers/settings/SettingsInPart.ts"
import { testApplicationSecret, testWebhookSecret } from "../../support/Settings.ts"

const text = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8")

const own = settingsCatalogue.filter(({ name }) => name.startsWith("MUSIC_"))
const standard = settingsCatalogue.filter(({ name }) => name.startsWith("OTEL_"))
const namesOf = (entries: typeof settingsCatalogue) => entries.map(({ name }) => name).sort()

const required = {
  MUSIC_IAM_URL: "https://iam.example",
  MUSIC_TING_URL: "https://ting.example",
  MUSIC_IAM_APP_SECRET: testApplicationSecret,
  MUSIC_IAM_WEBHOOK_SECRET: testWebhookSecret
}

const fallbacksOf = (entries: typeof settingsCatalogue) =>
  Object.fromEntries(
    entries.flatMap(({ fallback, name }) => (fallback === undefined ? [] : [[name, fallback]]))
  )

describe("The catalogue of settings", () => {
  it("names each setting once, those that are read and no other", () => {
    const read = new Set(text("src/layers/settings/Settings.ts").match(/MUSIC_[A-Z_]*[A-Z]/g))
    expect(namesOf(own)).toEqual([...read].sort())
    expect(new Set(namesOf(settingsCatalogue)).size).toBe(settingsCatalogue.length)
    expect(namesOf(own.filter((entry) => entry.required === true))).toEqual(Object.keys(required).sort())
  })

  it.effect("tells the defaults that absent settings have", () =>
    Effect.gen(function* () {
      expect(yield* readSettings({ ...required, ...fallbacksOf(own) })).toEqual(yield* readSettings(required))
      const exporting = { ...required, OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318" }
      expect(yield* readSettings({ ...exporting, ...fallbacksOf(standard) })).toEqual(
        yield* readSettings(exporting)
      )
    })
  )

  it("agrees with .env.example, name by name and default by default", () => {
    const lines = [...text(".env.example").matchAll(/^(MUSIC_[A-Z_]+)='(.*)'$/gm)]
    expect(lines.map(([, name]) => name).sort()).toEqual(namesOf(own))
    for (const [, name, value] of lines)
      expect([name, value]).toEqual([name, own.find((entry) => entry.name === name)?.fallback ?? ""])
  })

  it("agrees with docs/api.md", () => {
    const rows = text("docs/api.md")
      .split("\n")
      .filter((line) => /^\| `(?:MUSIC|OTEL)_/.test(line))
      .map((line) => line.split("|"))
    const documented = rows.flatMap(([, cell = "", defaults = ""]) => {
      const [first = "", ...others] = [...cell.matchAll(/`([A-Z_]+)`/g)].map(([, name = ""]) => name)
      // `_KEY_VERSION` stands for a name that begins as the first one does.
      const whole = others.map((name) =>
        name.startsWith("_")
          ? (own.find((entry) => entry.name.endsWith(name) && entry.name.startsWith("MUSIC_IAM_WEBHOOK"))
              ?.name ?? name)
          : name
      )
      return [first, ...whole].map((name) => ({ name, defaults }))
    })
    const named = documented.filter(({ name }) => name.startsWith("MUSIC_"))
    expect([...new Set(named.map(({ name }) => name))].sort()).toEqual(namesOf(own))
    for (const { defaults, name } of named) {
      const entry = own.find((one) => one.name === name)
      expect([name, defaults]).toEqual([name, expect.stringContaining(entry?.fallback ?? "")])
      if (entry?.required === true) expect(defaults).toContain("required")
    }
  })

  it("agrees with docs/observability.md on OpenTelemetry's variables", () => {
    const page = text("docs/observability.md")
    const missing = standard.filter(({ name }) => !/_(?:TRACES|METRICS)_(?!EXPORTER|SAMPLER)/.test(name))
    for (const { fallback = "", name } of missing) {
      expect(page).toContain(`\`${name}\``)
      expect(page).toContain(fallback)
    }
  })
})

/** Everything that a shell could take for its own. */
const awkward = "a$HOME&b;c#d`e\"f\\g |<>(){}[]*?~!%= 'h"
const address = "postgres://music:p$w%23d@db.example:5432/music?sslmode=require&channel_binding=require"
const values: Readonly<Record<string, string>> = Object.fromEntries(
  own.map(({ name }) => [name, name === "MUSIC_DATABASE_URL" ? address : `${name} ${awkward}`])
)

/** .env.example, filled in as its header says: between the quotes, if there are any. */
const filledIn = (): string =>
  text(".env.example").replace(/^(MUSIC_[A-Z_]+)=('?)[^'\n]*('?)$/gm, (_, name, opened, closed) => {
    const value = values[name] ?? ""
    return `${name}=${opened}${opened === "" ? value : value.replaceAll("'", "'\\''")}${closed}`
  })

/** The commands of its header, in order. */
const recipes = [...text(".env.example").matchAll(/^# {3}(.+)$/gm)].map(([, line = ""]) => line)
const recipeWith = (words: string): string => recipes.find((line) => line.includes(words)) ?? ""

const inFolder = <A>(use: (run: (script: string) => string, folder: string) => A): A => {
  const folder = mkdtempSync(join(tmpdir(), "music-environment-"))
  const run = (script: string) =>
    execFileSync("sh", ["-c", script], {
      cwd: folder,
      encoding: "utf8",
      env: { PATH: process.env.PATH ?? "" },
      stdio: ["ignore", "pipe", "pipe"]
    })
  try {
    return use(run, folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const settingsIn = (lines: ReadonlyArray<string>) =>
  Object.fromEntries(
    lines
      .filter((line) => line.startsWith("MUSIC_"))
      .map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)])
  )

describe("The recipe of .env.example", () => {
  it("hands every value to the process as it was written, whatever a shell makes of such characters", () =>
    inFolder((run, folder) => {
      writeFileSync(join(folder, ".env"), filledIn())
      const recipe = recipeWith("npm start")
      expect(recipe).toContain(". ./.env")
      expect(settingsIn(run(recipe.replace("npm start", "env -0")).split("\0"))).toEqual(values)
    }))

  it("makes a file for docker --env-file, where quotes would be part of the value, for its owner only", () =>
    inFolder((run, folder) => {
      writeFileSync(join(folder, ".env"), filledIn())
      run(recipeWith("docker.env"))
      expect(settingsIn(readFileSync(join(folder, "docker.env"), "utf8").split("\n"))).toEqual(values)
      expect(run("ls -l docker.env")).toMatch(/^-rw-------/)
    }))

  it("stands in the README as it is", () => {
    expect(recipeWith("npm start")).not.toBe("")
    for (const line of recipes.filter((each) => !each.includes("docker")))
      expect(text("README.md")).toContain(line)
  })
})

describe("Settings in part", () => {
  for (const { name } of own.filter((entry) => entry.standIn !== undefined))
    it.effect(`a bad ${name} hides no other setting`, () =>
      Effect.gen(function* () {
        const { problems } = yield* readSettingsInPart({
          ...required,
          [name]: " "
        })
        // The two of a pair ask for each other.
        const others = problems.filter((problem) => problem.name !== name && !/_PREVIOUS_/.test(problem.name))
        expect(others).toEqual([])
      })
    )

  it.effect("keeps what is right, tells every problem, and no value", () =>
    Effect.gen(function* () {
      const { problems, settings } = yield* readSettingsInPart({
        MUSIC_ORG_ID: "harbor",
        MUSIC_IAM_APP_SECRET: "ask_hidden",
        MUSIC_GITHUB_TOKEN: "hidden",
        MUSIC_GITHUB_URL: "hidden",
        MUSIC_BACKEND_TABLE_KEY: `table-musicbackend-${"0".repeat(32)}`,
        MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET: testWebhookSecret
      })
      expect(settings.organisation).toBe("harbor")
      expect(problems.map(({ name }) => name).sort()).toEqual([
        "MUSIC_GITHUB_REPOSITORY",
        "MUSIC_GITHUB_URL",
        "MUSIC_IAM_APP_SECRET",
        "MUSIC_IAM_URL",
        "MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION",
        "MUSIC_IAM_WEBHOOK_SECRET",
        "MUSIC_TABLES_URL",
        "MUSIC_TING_URL"
      ])
      expect(JSON.stringify(problems)).not.toContain("hidden")
    })
  )
})
