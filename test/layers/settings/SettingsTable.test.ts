import { execFileSync } from "node:child_process"
import { readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { renderSettingsPage, renderEnvExample } from "../../../scripts/settings/documents.ts"
import { readSettings } from "../../../src/layers/settings/Settings.ts"
import { settingEntries } from "../../../src/services/settings/SettingsTable.ts"
import { root } from "../../world/Fleet.ts"
import { folderOfFile } from "../../world/Folder.ts"
import { testEnvironment } from "../../world/Settings.ts"

const text = (path: string) => readFileSync(join(root, path), "utf8")

describe("The table of settings", () => {
  it("is the source of .env.example and docs/settings.md; npm run settings writes them", () => {
    expect(text(".env.example")).toBe(renderEnvExample(text(".env.example")))
    expect(text("docs/settings.md")).toBe(renderSettingsPage(text("docs/settings.md")))
  })

  it("holds the defaults of absent settings", () => {
    const defaults = Object.fromEntries(settingEntries.map((entry) => [entry.name, entry.default]))
    expect(readSettings({ ...defaults, ...testEnvironment })).toEqual(readSettings(testEnvironment))
  })

  it("has settings that are read: a bad value causes its problem and hides no other setting", () => {
    for (const { name } of settingEntries) {
      // Every text is a path.
      if (name === "MUSIC_DATABASE_PATH") continue
      const { problems } = readSettings({ ...testEnvironment, [name]: "a b" })
      // A previous secret and its key version require each other, as do a key or token and its service.
      const partner = /_PREVIOUS_|_TABLE_KEY$|_TOKEN$/.test(name) ? 1 : 0
      expect(problems.map((problem) => problem.name)).toContain(name)
      expect([name, problems.length]).toEqual([name, 1 + partner])
    }
  })
})

const own = settingEntries.filter(({ name }) => name.startsWith("MUSIC_"))

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

const folder = folderOfFile()

/** Runs a recipe beside this `.env`. */
const run = (environmentFile: string, script: string) => {
  writeFileSync(join(folder, ".env"), environmentFile)
  const env = { PATH: process.env.PATH ?? "" }
  return execFileSync("sh", ["-c", script], { cwd: folder, encoding: "utf8", env, stdio: "pipe" })
}

const settingsIn = (lines: ReadonlyArray<string>) =>
  Object.fromEntries(
    lines
      .filter((line) => line.startsWith("MUSIC_"))
      .map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)])
  )

describe("The recipe of .env.example", () => {
  const start = recipeWith("npm start").replace("npm start", "env -0")

  it("sets the required settings alone: a later default is no line to correct", () => {
    const required = settingEntries.filter((entry) => entry.required === true).map(({ name }) => [name, ""])
    const set = settingsIn(run(text(".env.example"), start).split("\0"))
    expect(set).toEqual(Object.fromEntries(required))
  })

  it("passes every value to the process as written, shell characters included", () => {
    expect(start).toContain(". ./.env")
    expect(settingsIn(run(filledIn(), start).split("\0"))).toEqual(values)
  })

  it("writes a file for docker --env-file without quotes and without what the image sets, readable by its owner only", () => {
    run(filledIn(), recipeWith("docker.env"))
    const { MUSIC_BIND: _bind, MUSIC_DATABASE_PATH: _path, ...others } = values
    const file = join(folder, "docker.env")
    expect(settingsIn(readFileSync(file, "utf8").split("\n"))).toEqual(others)
    expect(statSync(file).mode & 0o777).toBe(0o600)
  })
})
