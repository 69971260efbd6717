/** The systemd units, as systemd itself checks them. */
import { execFileSync, spawnSync } from "node:child_process"
import { join } from "node:path"
import { beforeAll, describe, expect, it } from "vitest"
import { root } from "../world/Fleet.ts"
import { requireProgram } from "../support/Programs.ts"

const folder = join(root, "ops/systemd")
const names = ["music-backend.service", "music-backend-backup.service", "music-backend-backup.timer"]

describe("The systemd units", () => {
  beforeAll(() => requireProgram("systemd-analyze", "systemd"))

  it("are correct and at most exposed by 1.5 of 10, as systemd counts", () => {
    const { status, stderr } = spawnSync(
      "systemd-analyze",
      ["verify", "--man=no", ...names.map((name) => join(folder, name))],
      { encoding: "utf8" }
    )
    // The folder of the installation is not on this machine; other lines name our files.
    expect(
      stderr.split("\n").filter((line) => line.includes("music-backend") && !/ExecStart|node/.test(line))
    ).toEqual([])
    expect(status, stderr).toBe(0)
    for (const name of names.slice(0, 2)) {
      const report = execFileSync(
        "systemd-analyze",
        ["security", "--offline=yes", "--threshold=15", "--no-pager", join(folder, name)],
        { encoding: "utf8" }
      )
      expect(report).toContain("Overall exposure level")
    }
  })
})
