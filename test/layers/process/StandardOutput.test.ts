/** Lines on standard output of a real process. test/faults/Logs.test.ts has a server on a closed pipe. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { text } from "node:stream/consumers"
import { beforeAll, describe, expect, it } from "vitest"
import { bundle, root } from "../../world/Fleet.ts"
import { folderOfFile } from "../../world/Folder.ts"

const scratch = folderOfFile()

const { execPath: node } = process
let program = ""
beforeAll(async () => {
  program = await bundle(join(import.meta.dirname, "Lines.ts"))
})

/** The numbers of whole lines. */
const numbers = (output: string) => [...output.matchAll(/^(\d+)\.+$/gm)].map(([, number]) => Number(number))

describe("Lines on standard output", () => {
  it("wait for a reader that stalls, up to 1 MiB; the end waits for half a second, and no longer", async () => {
    const child = spawn(node, [program, "3000", "end"], { cwd: root, stdio: ["ignore", "pipe", "pipe"] })
    const [lost] = await once(child.stderr, "data")
    expect(Number(lost)).toBeGreaterThan(1_700)
    expect(Number(lost)).toBeLessThan(2_000)
    const [code] = await once(child, "exit", { signal: AbortSignal.timeout(5_000) })
    expect(code).toBe(3)
  })

  it("all arrive in order at a reader that is late", async () => {
    const child = spawn(node, [program, "1000"], { cwd: root, stdio: ["ignore", "pipe", "pipe"] })
    const [lost] = await once(child.stderr, "data")
    const output = await text(child.stdout)
    expect([Number(lost), output.endsWith("\nlast\n")]).toEqual([0, true])
    expect(numbers(output)).toEqual(Array.from({ length: 1_000 }, (_, at) => at))
  })

  it("are counted while a disk is full, and written after it on a line of their own", () => {
    const file = join(scratch, "full.log")
    // Blocks of 512 bytes: room for two lines and a part of the third.
    const shell = 'ulimit -S -f 5; exec "$@" >>"$0"'
    const { status, stderr } = spawnSync("sh", ["-c", shell, file, node, program, "10", "room"], {
      cwd: root,
      encoding: "utf8"
    })
    expect([status, stderr]).toEqual([3, "8\n"])
    expect(readFileSync(file, "utf8")).toMatch(/^0\.+\n1\.+\n2\.*\nlast\n$/)
  })
})

it("A server whose end breaks after its signal exits with 1", () => {
  expect(spawnSync(node, [program, "0", "break"]).status).toBe(1)
})
