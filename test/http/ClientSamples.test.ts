/** The samples for the client in the document, and its code about webhooks, run as they are shown. */
import { execFile } from "node:child_process"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { Effect } from "effect"
import { build } from "esbuild"
import { describe, expect } from "vitest"
import { mintSlt } from "../../sandbox/SimulatedUpstreams.ts"
import { production } from "../../sandbox/upstreams/Iam.ts"
import { placeholders } from "../../src/http/openapi/Examples.ts"
import { document, documentedCalls } from "../world/Contract.ts"
import { startTestSandbox } from "../world/Sandbox.ts"
import { temporaryFolder } from "../world/SqliteTemplate.ts"
import { it } from "../world/Test.ts"

const root = fileURLToPath(new URL("../../", import.meta.url))

/** A block of code of a Markdown text, by the text that it contains. */
const codeIn = (text: string, part: string): string =>
  [...text.matchAll(/```js\n([\s\S]*?)```/g)]
    .map(([, code = ""]) => code)
    .find((code) => code.includes(part)) ?? ""

// The call that ends the session is the last one.
const samples = documentedCalls
  .flatMap(({ operationId, "x-codeSamples": given = [] }) =>
    given.map(({ source }) => ({ operationId, source }))
  )
  .sort(
    (left, right) => Number(left.operationId === "auth.logout") - Number(right.operationId === "auth.logout")
  )

/** Prints the outcome of each sample. */
const programOf = () =>
  [
    codeIn(document.info.description, "createMusicClient("),
    ...samples.map(
      ({ operationId, source }) => `{\n${source}\nconsole.log("= ${operationId}", answer.ok)\n}`
    ),
    "await client.close()"
  ].join("\n")

describe("The samples of the document", () => {
  it("exist for every call of the client", () => {
    const without = documentedCalls
      .map(({ operationId }) => operationId)
      .filter((id) => samples.every(({ operationId }) => operationId !== id))
    expect(without).toEqual(["auth.refresh", "webhooks.receive"])
  })

  it.scopedLive("work with the client", function* () {
    const { base, world } = yield* startTestSandbox
    const contents = programOf()
      .replaceAll("http://127.0.0.1:8787", base)
      .replaceAll(placeholders.slt, mintSlt(world))
    const outfile = join(yield* temporaryFolder, "samples.mjs")
    const { stdout } = yield* Effect.promise(async () => {
      await build({
        stdin: { contents, resolveDir: root },
        alias: {
          "music-client": join(root, "client/index.ts"),
          "music-client/telemetry": join(root, "client/telemetry.ts")
        },
        bundle: true,
        platform: "node",
        format: "esm",
        outfile
      })
      return promisify(execFile)(process.execPath, [outfile])
    })
    expect(stdout.split("\n").filter((line) => line.startsWith("= "))).toEqual(
      samples.map(({ operationId }) => `= ${operationId} true`)
    )
  })

  it.scopedLive("verify a delivery of the identity service, and nothing else", function* () {
    const { clock, world } = yield* startTestSandbox
    const { controls } = world.iam
    const { body, headers } = controls.buildWebhook(
      production,
      controls.events.membershipUpdated(production, "si:lyra", "acme")
    )
    const code = codeIn(document.tags.find(({ name }) => name === "Webhooks")?.description ?? "", "isGenuine")
    const { isGenuine } = yield* Effect.promise(
      () => import(/* @vite-ignore */ `data:text/javascript,${encodeURIComponent(code)}`)
    )
    const sent = Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])
    )
    const { webhookSecret } = world.seeded.production
    const now = clock.now() / 1_000
    expect(isGenuine(sent, body, webhookSecret, now)).toBe(true)
    expect(isGenuine(sent, Buffer.from(`${body} `), webhookSecret, now)).toBe(false)
    expect(isGenuine(sent, body, `${webhookSecret}x`, now)).toBe(false)
    expect(isGenuine({ ...sent, "x-silicon-iam-timestamp": "1" }, body, webhookSecret, now)).toBe(false)
    expect(isGenuine({}, body, webhookSecret, now)).toBe(false)
  })
})
