import { execFileSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { renderApiPage, renderEnvExample } from "../../../scripts/settings/documents.ts"
import { readSettings } from "../../../src/layers/settings/Settings.ts"
import { settingEntries } from "../../../src/layers/settings/SettingsTable.ts"
import { testEnvironment } from "../../support/Settings.ts"

const text = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8")

const own = settingEntries.filter(({ name }) => name.startsWith("MUSIC_"))
const standard = settingEntries.filter(({ name }) => name.startsWith("OTEL_"))

describe("The table of settings", () => {
  it("is the source of .env.example and docs/api.md; npm run settings writes them", () => {
    expect(text(".env.example")).toBe(renderEnvExample(text(".env.example")))
    expect(text("docs/api.md")).toBe(renderApiPage(text("docs/api.md")))
  })

  it("holds the defaults of absent settings", () => {
    const defaults = Object.fromEntries(settingEntries.map((entry) => [entry.name, entry.default]))
    for (const given of [
      testEnvironment,
      { ...testEnvironment, OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318" }
    ])
      expect(readSettings({ ...defaults, ...given })).toEqual(readSettings(given))
  })

  it("requires exactly the settings that the tests set", () => {
    const required = own.filter((entry) => entry.required === true).map(({ name }) => name)
    expect(required).toEqual(Object.keys(testEnvironment))
  })

  // Every text is a path.
  it.each(own.map(({ name }) => name).filter((name) => name !== "MUSIC_DATABASE_PATH"))(
    "has a %s that is read: a bad value causes its problem and hides no other setting",
    (name) => {
      const { problems } = readSettings({ ...testEnvironment, [name]: "a b" })
      // A previous secret and its key version require each other, as do a key or token and its service.
      const partner = /_PREVIOUS_|_TABLE_KEY$|_TOKEN$/.test(name) ? 1 : 0
      expect(problems.map((problem) => problem.name)).toContain(name)
      expect(problems.length).toBe(1 + partner)
    }
  )

  it("agrees with docs/observability.md on OpenTelemetry's variables", () => {
    const page = text("docs/observability.md")
    for (const entry of standard.filter(
      ({ name }) => !/_(?:TRACES|METRICS)_(?!EXPORTER|SAMPLER)/.test(name)
    )) {
      expect(page).toContain(`\`${entry.name}\``)
      expect(page).toContain(entry.default ?? entry.name)
    }
  })
})

/** All characters that a shell interprets. */
const awkward = "a$HOME&b;c#d`e\"f\\g |<>(){}[]*?~!%= 'h"
const address = "postgres://music:p$w%23d@db.example:5432/music?sslmode=require&channel_binding=require"
const values: Readonly<Record<string, string>> = Object.fromEntries(
  own.map(({ name }) => [name, name === "MUSIC_DATABASE_URL" ? address : `${name} ${awkward}`])
)

/** .env.example, with all settings filled in between their quotes as its header says. */
const filledIn = (): string =>
  text(".env.example").replace(/^(?:# )?(MUSIC_[A-Z_]+)=('?)[^'\n]*('?)$/gm, (_, name, opened, closed) => {
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
  it("sets the required settings alone: a later default is no line to correct", () =>
    inFolder((run, folder) => {
      writeFileSync(join(folder, ".env"), text(".env.example"))
      const required = settingEntries.filter((entry) => entry.required === true).map(({ name }) => [name, ""])
      expect(settingsIn(run(recipeWith("npm start").replace("npm start", "env -0")).split("\0"))).toEqual(
        Object.fromEntries(required)
      )
    }))

  it("passes every value to the process as written, shell characters included", () =>
    inFolder((run, folder) => {
      writeFileSync(join(folder, ".env"), filledIn())
      const recipe = recipeWith("npm start")
      expect(recipe).toContain(". ./.env")
      expect(settingsIn(run(recipe.replace("npm start", "env -0")).split("\0"))).toEqual(values)
    }))

  it("writes a file for docker --env-file without quotes and without what the image sets, readable by its owner only", () =>
    inFolder((run, folder) => {
      writeFileSync(join(folder, ".env"), filledIn())
      run(recipeWith("docker.env"))
      const { MUSIC_BIND: _bind, MUSIC_DATABASE_PATH: _path, ...others } = values
      expect(settingsIn(readFileSync(join(folder, "docker.env"), "utf8").split("\n"))).toEqual(others)
      expect(run("ls -l docker.env")).toMatch(/^-rw-------/)
    }))

  it("is repeated in the README", () => {
    expect(recipeWith("npm start")).not.toBe("")
    for (const line of recipes.filter((each) => !each.includes("docker")))
      expect(text("README.md")).toContain(line)
  })
})
