/**
 * The commands of docs/operations.md, "Deploy". Debian.slow.ts runs those for systemd. Those that need a container engine are parsed here, and what
 * they use is tested beside this file; the others run.
 */
import { execFileSync } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { parse } from "yaml"
import { scripts } from "../documents/Blocks.ts"
import { root } from "../support/Process.ts"

const blocks = scripts("operations.md: In a container")

describe("The commands of Deploy", () => {
  it("are understood by a shell", () => {
    expect(blocks.length).toBeGreaterThan(2)
    for (const block of blocks) execFileSync("sh", ["-n"], { input: block })
  })

  it("make every secret that the Compose file names, each readable by its user alone", () => {
    const folder = mkdtempSync(join(tmpdir(), "music-secrets-"))
    try {
      const block = blocks.find((each) => each.includes("database-password")) ?? ""
      // Only root can give a file to another user.
      const run = process.getuid?.() === 0 ? block : block.replace(/ -o \d+/g, "")
      execFileSync("sh", ["-ec", run], { cwd: folder })
      const { secrets } = parse(readFileSync(join(root, "compose.yaml"), "utf8"))
      expect(readdirSync(join(folder, "secrets"))).toEqual(Object.keys(secrets).toSorted())
      const read = (name: string) => readFileSync(join(folder, "secrets", name), "utf8")
      expect(read("database-url")).toBe(`postgres://music:${read("database-password")}@database/music`)
      for (const name of Object.keys(secrets))
        expect(statSync(join(folder, "secrets", name)).mode & 0o077).toBe(0)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
})
