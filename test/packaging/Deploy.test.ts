/**
 * The commands of docs/operations.md, "Deploy". Those that need a package mirror, systemd as process 1 or a container engine are parsed here, and what
 * they use is tested beside this file; the others run.
 */
import { execFileSync } from "node:child_process"
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { parse } from "yaml"
import { scripts } from "../documents/Blocks.ts"
import { root } from "../support/Process.ts"

const blocks = ["operations.md: On Debian with systemd", "operations.md: In a container"].flatMap(scripts)
const all = blocks.join("\n")

describe("The commands of Deploy", () => {
  it("are understood by a shell, and name files of this repository", () => {
    expect(blocks.length).toBeGreaterThan(5)
    for (const block of blocks) execFileSync("sh", ["-n"], { input: block })
    const files = [...all.matchAll(/(?<![\w./-])(?:ops|scripts)\/[\w./*-]+/g)].map(([file]) => file)
    expect(files.filter((file) => !existsSync(join(root, file.replace(/\/\*.*/, ""))))).toEqual([])
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
