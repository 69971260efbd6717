/** The settings of the systemd units. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { parseEnv } from "node:util"
import { describe, expect, it } from "vitest"
import { readSettings } from "../../src/layers/settings/Settings.ts"
import { settings } from "../../src/layers/settings/SettingsTable.ts"
import { root } from "../support/Process.ts"
import { unknownVariables } from "./Variables.ts"

const folder = join(root, "ops/systemd")
const read = (name: string) => readFileSync(join(folder, name), "utf8")
const server = read("music-backend.service")
const copy = read("music-backend-backup.service")

const valuesOf = (unit: string, name: string): ReadonlyArray<string> =>
  [...unit.matchAll(new RegExp(`^${name}=(.*)$`, "gm"))].map(([, value = ""]) => value)
const sandboxOf = (unit: string) => /^UMask=[\s\S]*?(?=\n\n|$(?![\s\S]))/m.exec(unit)?.[0].trim()

describe("The systemd units", () => {
  it("set only variables that exist, and secrets from files that systemd passes", () => {
    const variables = valuesOf(server, "Environment").map((pair) => pair.split("=", 2))
    const names = variables.map(([name = ""]) => name)
    const example = parseEnv(read("music-backend.env"))
    expect(unknownVariables([...names, ...Object.keys(example)])).toEqual([])
    const passed = valuesOf(server, "LoadCredential").map((value) => `%d/${value.split(":")[0]}`)
    expect(variables.map(([, value]) => value)).toEqual(passed)
    // With the secrets, the example's settings are complete and valid.
    const secrets = {
      MUSIC_IAM_APP_SECRET: `ask_${"a".repeat(43)}`,
      MUSIC_IAM_WEBHOOK_SECRET: "w".repeat(32)
    }
    expect(names).toEqual(Object.keys(secrets).map((name) => `${name}_FILE`))
    expect(readSettings({ ...example, ...secrets }).problems).toEqual([])
  })

  it("give a stop more time than the server takes, and do not repeat a start with bad settings", () => {
    const [stop = ""] = valuesOf(server, "TimeoutStopSec")
    expect(Number(stop)).toBeGreaterThan(Number(settings.MUSIC_SHUTDOWN_GRACE_SECONDS.default))
    expect(valuesOf(server, "Restart")).toEqual(["on-failure"])
    expect(valuesOf(server, "RestartPreventExitStatus")).toEqual(["78"])
  })

  it("run the backup as the same user in the same sandbox", () => {
    expect(sandboxOf(server)).toContain("ProtectSystem=strict")
    expect(sandboxOf(copy)).toBe(sandboxOf(server))
    for (const name of ["User", "WorkingDirectory", "EnvironmentFile"])
      expect(valuesOf(copy, name)).toEqual(valuesOf(server, name))
  })
})
