import { spawnSync } from "node:child_process"
import { cp, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { root } from "../../support/Process.ts"
import { type Built, buildClient } from "../support/Built.ts"
import { makeConsumer } from "../support/Consumer.ts"

let built: Built
beforeAll(async () => {
  built = await buildClient({ types: true })
})
afterAll(() => built.remove())

/** Type-checks one file in a separate project, including the declarations of its libraries. */
const check = async (project: Built, file: string, types: ReadonlyArray<string>): Promise<string> => {
  const compilerOptions = {
    strict: true,
    skipLibCheck: false,
    target: "es2022",
    module: "nodenext",
    lib: ["es2022", "dom"],
    types,
    noEmit: true
  }
  await writeFile(join(project.folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: [file] }))
  const compiler = join(root, "node_modules/typescript/bin/tsc")
  return spawnSync(process.execPath, [compiler, "-p", project.folder], { encoding: "utf8" }).stdout
}

const promiseProgram = `
import { createMusicClient, hasCode, type Result, webSessionStore } from "music-backend/client"

const client = createMusicClient({
  baseUrl: "https://music.example", source: "web", telemetry: true, sessionStore: webSessionStore()
})
const me = await client.me({ signal: AbortSignal.timeout(1000) })
if (me.ok) {
  const name: string = me.value.actor.public_id
  void name
} else {
  if (me.error.code === "rate_limited") { const status: 429 = me.error.status; void status }
  if (me.error.code === "unexpected_answer") { const status: number = me.error.status; void status }
  if (hasCode(me.error, "logged_out", "not_logged_in")) { const status: null = me.error.status; void status }
  // @ts-expect-error no such code
  if (me.error.code === "no_such_code") void me
}
const sent: Result<{ readonly replayed: boolean }> = await client.ting({ type: "t", key: "k", data: {} })
void sent
// @ts-expect-error the organisation and the recipient come from the session
await client.ting({ type: "t", key: "k", data: {}, for: "si:deejay" })
// @ts-expect-error no such source
createMusicClient({ baseUrl: "https://music.example", source: "tv", telemetry: true })
`

describe("A consumer's project", () => {
  it("type-checks a program on the promise client with nothing else installed", async () => {
    const project = await makeConsumer(built, [])
    await writeFile(join(project.folder, "program.ts"), promiseProgram)
    expect(await check(project, "program.ts", [])).toBe("")
    await project.remove()
  })

  it("type-checks the example daemon with its own effect", async () => {
    const project = await makeConsumer(built, ["effect", "@effect", "@types"])
    await cp(join(root, "examples/effect-daemon.ts"), join(project.folder, "daemon.ts"))
    // The platform package for Node has declarations that need others; only ours and Effect's are checked.
    expect(
      (await check(project, "daemon.ts", ["node"]))
        .split("\n")
        .filter((line) => !line.startsWith("node_modules/@effect/platform-node"))
    ).toEqual([""])
    await project.remove()
  })
})
