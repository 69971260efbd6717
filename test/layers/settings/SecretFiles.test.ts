import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect } from "vitest"
import { folderOfFile } from "../../world/Folder.ts"
import { it } from "../../world/Test.ts"
import { Option, Redacted } from "effect"
import { type Environment, readSettings } from "../../../src/layers/settings/Settings.ts"
import { settingEntries } from "../../../src/services/settings/SettingsTable.ts"
import { testApplicationSecret, testEnvironment } from "../../world/Settings.ts"
import { run } from "../../cli/Harness.ts"

const folder = folderOfFile()

let files = 0
const fileOf = (content: string): string => {
  files += 1
  const path = join(folder, `secret-${files}`)
  writeFileSync(path, content, { mode: 0o400 })
  return path
}

const secrets = settingEntries.filter(({ secret }) => secret === true).map(({ name }) => name)

const keyOf = (name: string): string => {
  const [, table = ""] = /^MUSIC_(.*)_TABLE_KEY$/.exec(name) ?? []
  return `table-music${table.toLowerCase().replaceAll("_", "")}-${"a".repeat(32)}`
}

/** A valid text of each secret, and of the settings that it needs. */
const samples: Readonly<Record<string, string>> = {
  ...Object.fromEntries(secrets.map((name) => [name, keyOf(name)])),
  ...testEnvironment,
  MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET: "p".repeat(40),
  MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION: "2",
  MUSIC_DATABASE_URL: "postgres://music:hidden@db.example/music",
  MUSIC_TABLES_URL: "https://tables.example",
  MUSIC_GITHUB_REPOSITORY: "harbor/music",
  MUSIC_GITHUB_TOKEN: "ghp_hidden"
}

const inFiles = (lineEnd: string): Environment => {
  const files = secrets.map((name) => [`${name}_FILE`, fileOf(`${samples[name]}${lineEnd}`)])
  return { ...samples, ...Object.fromEntries([...secrets.map((name) => [name, ""]), ...files]) }
}

const problemOf = (given: Environment): string | undefined =>
  readSettings({ ...testEnvironment, MUSIC_IAM_APP_SECRET: "", ...given }).problems.find(
    ({ name }) => name === "MUSIC_IAM_APP_SECRET"
  )?.problem

describe("A secret in a file", () => {
  it.each(["", "\n", "\r\n"])("is the value of its setting, without one final line end (%j)", (lineEnd) => {
    const read = readSettings(inFiles(lineEnd))
    expect(read.problems).toEqual([])
    expect(read).toEqual(readSettings(samples))
    const { databaseUrl, iam } = read.settings
    expect(Redacted.value(iam.applicationSecret)).toBe(testApplicationSecret)
    expect(Redacted.value(Option.getOrThrow(databaseUrl))).toContain("hidden")
  })

  it("that cannot be read or is empty is a problem of its setting, which does not name the path", () => {
    for (const [reason, path] of [
      ["cannot be read (ENOENT)", testApplicationSecret],
      ["cannot be read (EISDIR)", folder],
      ["is empty", fileOf("\n")]
    ] as const)
      expect(problemOf({ MUSIC_IAM_APP_SECRET_FILE: path })).toBe(
        `the file of MUSIC_IAM_APP_SECRET_FILE ${reason}`
      )
  })

  it("is refused by the same rule as in a variable, and beside the same secret in a variable", () => {
    const doubled = { MUSIC_IAM_APP_SECRET_FILE: fileOf(`${testApplicationSecret}\n\n`) }
    expect(problemOf(doubled)).toMatch(
      /^must be ask_ and 43 .*; it is in the file of MUSIC_IAM_APP_SECRET_FILE$/
    )
    const own = { MUSIC_IAM_APP_SECRET_FILE: fileOf(testApplicationSecret) }
    expect(problemOf({ ...own, MUSIC_IAM_APP_SECRET: testApplicationSecret })).toBe(
      "is set, and MUSIC_IAM_APP_SECRET_FILE too: remove one of them"
    )
  })

  it.live("is shown by config as the name of its file; a name that leads nowhere is not shown", function* () {
    const environment: Environment = { ...inFiles("\n"), MUSIC_GITHUB_TOKEN_FILE: "ghp_in_the_wrong_place" }
    const text = yield* run(["config"], environment)
    expect(text.out).toMatch(new RegExp(`MUSIC_IAM_APP_SECRET +${folder}/secret-\\d+ `))
    expect(text.out).toContain("the file of MUSIC_GITHUB_TOKEN_FILE cannot be read (ENOENT)")
    const { json, out } = yield* run(["config", "--changed", "--json"], environment)
    const file = environment.MUSIC_DATABASE_URL_FILE
    const shown = { name: "MUSIC_DATABASE_URL", source: "file", file, value: null }
    expect(json).toMatchObject({ items: expect.arrayContaining([expect.objectContaining(shown)]) })
    for (const secret of [...secrets.map((name) => samples[name] ?? name), "ghp_in_the_wrong_place"])
      expect([text.out, text.err, out].filter((printed) => printed.includes(secret))).toEqual([])
  })
})
