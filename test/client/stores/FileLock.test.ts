/** The lock between processes, as a user of the store sees it: one holder at a time, and a dead owner's lock is taken. */
import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { readdir, readFile, utimes, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { performance } from "node:perf_hooks"
import { setTimeout as sleep } from "node:timers/promises"
import { beforeAll, describe, expect, it } from "vitest"
import { fileLock } from "../../../client/node.ts"
import { bundle, root } from "../../world/Fleet.ts"
import { eachFolder } from "../support/ClientWorld.ts"

const made = eachFolder()

const never = new AbortController().signal
/** Milliseconds: enough for a slow machine, and far below the limit of a patient lock. */
const soon = 30_000
const patient = { staleMilliseconds: 2 * soon }
const timedOut = { name: "TimeoutError" }

const pathOf = (slot: string) => join(made.folder, `session-${slot}.lock`)
const path = () => pathOf("slot")
const acquire = (options: object = patient, milliseconds = soon) =>
  fileLock(pathOf, options).acquire("slot", AbortSignal.timeout(milliseconds))
/** Takes the lock and releases it, which leaves no file. */
const takeOver = async (options: object = patient) => {
  await (await acquire(options))()
  expect(await readdir(made.folder)).toEqual([])
}

let library = ""
beforeAll(async () => {
  library = await bundle(join(root, "client/node.ts"))
})
/** A process that holds the lock until it is killed; it has printed its line. */
const startTaker = async () => {
  // Renewed every 200 ms.
  const program = `const [library, directory] = process.argv.slice(2)
    const { lock } = require(library).fileSessionStore({ directory, staleMilliseconds: 600 })
    lock.acquire("slot", AbortSignal.timeout(${soon})).then(() => console.log("held"))
    setTimeout(() => {}, ${soon})`
  const taker = spawn(process.execPath, ["-e", program, "-", library, made.folder])
  await once(taker.stdout, "data")
  return async () => {
    taker.kill("SIGKILL")
    await once(taker, "exit")
  }
}

/** A lock file of this host and process, with other facts. */
const lockFile = async (facts: object) => {
  const release = await acquire()
  const own = await readFile(path(), "utf8")
  await release()
  return JSON.stringify({ ...JSON.parse(own), ...facts })
}
describe("The file lock", () => {
  it("has one holder at a time, and leaves no file", async () => {
    const lock = fileLock(pathOf)
    let inside = 0
    let most = 0
    const use = async () => {
      const release = await lock.acquire("slot", never)
      inside += 1
      most = Math.max(most, inside)
      await sleep(2)
      inside -= 1
      await release()
      await release()
    }
    await Promise.all(Array.from({ length: 12 }, use))
    expect(most).toBe(1)
    expect(await readdir(made.folder)).toEqual([])
  })

  it("waits for a live holder, until its signal aborts with its reason", async () => {
    const release = await acquire()
    await expect(acquire({}, 200)).rejects.toMatchObject(timedOut)
    await expect(fileLock(pathOf).acquire("slot", AbortSignal.abort("stop"))).rejects.toBe("stop")
    await release()
    const leaving = new AbortController()
    const left = fileLock(pathOf).acquire("slot", leaving.signal)
    leaving.abort("left")
    await expect(left).rejects.toBe("left")
    await takeOver({})
  })

  it("of a live process stays its own, whatever the clock says, and is free once that is killed", async () => {
    const kill = await startTaker()
    await expect(acquire({ staleMilliseconds: 3_000 }, 3_500)).rejects.toMatchObject(timedOut)
    const hourAgo = () => (performance.timeOrigin + performance.now()) / 1_000 - 3_600
    const steps = setInterval(() => utimes(path(), hourAgo(), hourAgo()).catch(() => undefined), 50)
    await expect(acquire({ staleMilliseconds: 15_000 }, 500)).rejects.toMatchObject(timedOut)
    clearInterval(steps)
    await kill()
    await takeOver()
  })
})

describe("The lock of a dead owner is taken", () => {
  const deadPid = () => spawnSync(process.execPath, ["--version"]).pid
  it.each<readonly [string, () => object]>([
    ["a dead process", () => ({ pid: deadPid() })],
    ["a process before the host's last start", () => ({ pid: 1, boot: "another" })]
  ])("at once from %s", async (_, facts) => {
    await writeFile(path(), await lockFile(facts()))
    await takeOver()
  })

  it.each([
    ["another host, whatever its process number means here", { pid: 999_999, host: "another" }],
    ["a process whose number is in use again", {}]
  ])("only without a renewal from %s", async (_, facts) => {
    const text = await lockFile(facts)
    await writeFile(path(), text)
    await expect(acquire(patient, 100)).rejects.toMatchObject(timedOut)
    expect(await readFile(path(), "utf8")).toBe(text)
    await takeOver({ staleMilliseconds: 80 })
  })

  it.each(["", '{"pid":1,"host":"anoth', "null"])("from a torn file: %s", async (text) => {
    await writeFile(path(), text)
    await takeOver({ staleMilliseconds: 30 })
  })
})
