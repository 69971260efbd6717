/** Every sample of the documentation page, run as it is shown: only the placeholders become a session of a sandbox. */
import { execFile } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { build } from "esbuild"
import ts from "typescript"
import { signWebhook } from "../../sandbox/upstreams/Iam.ts"
import { mintSlt } from "../../sandbox/SimulatedUpstreams.ts"
import { Html } from "../../src/http/docs/Html.ts"
import { type Language, preparations, type Sample, samplesOf } from "../../src/http/docs/Samples.ts"
import { callsOf, exampleBody, type Spec } from "../../src/http/docs/Spec.ts"
import { placeholders } from "../../src/http/openapi/Examples.ts"
import { openApi } from "../../src/http/openapi/OpenApiDocument.ts"
import { startTestSandbox } from "../support/Sandbox.ts"

const run = promisify(execFile)
const root = fileURLToPath(new URL("../../", import.meta.url))
const spec = openApi() as unknown as Spec

/** The calls whose samples use the session, then those that end it. */
const last = ["auth.refresh", "auth.logout"]
const calls = [...callsOf(spec)].sort(
  (left, right) => last.indexOf(left.operationId) - last.indexOf(right.operationId)
)

const textOf = (code: string | Html): string =>
  code instanceof Html ? code.text.replaceAll(/<[^>]*>/g, "").replaceAll("&quot;", '"') : code
const prepare = (language: Language): string =>
  preparations.filter((sample) => sample.language === language).map(({ code }) => textOf(code))[0] ?? ""

const samplesIn = (language: Language) =>
  calls.flatMap((call) => {
    const sample = samplesOf(spec, call).find((each) => each.language === language)
    return sample === undefined ? [] : [{ call, sample }]
  })
const linesOf = ({ key, code }: Sample): string => [...(key === undefined ? [] : [key]), code].join("\n")

/** The success that a call documents. */
const successOf = ({ responses }: (typeof calls)[number]): string =>
  Object.keys(responses).find((status) => Number(status) < 400) ?? ""
const expected = (language: Language) =>
  samplesIn(language).map(({ call }) => `${call.operationId} ${successOf(call)}`)

/** A sandbox, and a function that puts a new session of it, and a signature for the bytes of the webhook, into samples. */
const sandbox = Effect.gen(function* () {
  const { base, clock, world } = yield* startTestSandbox
  const login = async () => {
    const response = await fetch(`${base}/api/v1/auth/login`, {
      method: "POST",
      headers: { "content-type": "application/json", "idempotency-key": crypto.randomUUID() },
      body: JSON.stringify({ slt: mintSlt(world) })
    })
    return (await response.json()) as { readonly access_token: string; readonly refresh_token: string }
  }
  const fill = async (text: string, webhookBody = ""): Promise<string> => {
    const session = await login()
    const timestamp = String(Math.floor(clock.now() / 1000))
    const { webhookSecret, webhookKeyVersion } = world.seeded.production
    return text
      .replaceAll("http://127.0.0.1:8787", base)
      .replaceAll(placeholders.slt, mintSlt(world))
      .replaceAll("$TOKEN", session.access_token)
      .replaceAll(/\$\{token\}/g, session.access_token)
      .replaceAll(placeholders.refreshToken, session.refresh_token)
      .replaceAll(/(X-Silicon-IAM-Timestamp(?:": "|: ))\d+/g, `$1${timestamp}`)
      .replaceAll(/(X-Silicon-IAM-Key-Version(?:": "|: ))\d+/g, `$1${webhookKeyVersion}`)
      .replaceAll(/v1=[0-9a-f]{64}/g, signWebhook(webhookSecret, timestamp, Buffer.from(webhookBody)))
  }
  return { fill, slt: () => mintSlt(world), base }
})

const [webhookBody] = calls.filter(({ path }) => path === "/webhook").map(exampleBody)

/** A folder for programs, and its end. */
const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "samples-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true }))
)

const statuses = (output: string) => output.split("\n").filter((line) => line.startsWith("= "))

describe("The samples of the documentation page", () => {
  it("exist for every call; the client has no method for a refresh and for webhooks", () => {
    const all = calls.map(({ operationId }) => operationId)
    expect(samplesIn("curl").map(({ call }) => call.operationId)).toEqual(all)
    expect(samplesIn("fetch").map(({ call }) => call.operationId)).toEqual(all)
    const clients = samplesIn("client").map(({ call }) => call.operationId)
    expect(all.filter((id) => !clients.includes(id)).sort()).toEqual(["auth.refresh", "webhooks.receive"])
  })

  it.scopedLive("for curl answer as documented", function* () {
    const { fill } = yield* sandbox
    const program = samplesIn("curl").map(
      ({ call, sample }) => `(\nprintf '\\n= ${call.operationId} '\n${linesOf(sample)}\n)`
    )
    const text = yield* Effect.promise(() =>
      // The pretty form, because the body is longer than a line.
      fill([prepare("curl"), ...program].join("\n"), JSON.stringify(webhookBody, null, 2))
    )
    const path = yield* folder
    writeFileSync(join(path, ".curlrc"), 'silent\noutput = "/dev/null"\nwrite-out = "%{http_code}"\n')
    writeFileSync(join(path, "uuidgen"), "#!/bin/sh\nod -An -N16 -tx1 /dev/urandom | tr -d ' \\n'\n", {
      mode: 0o755
    })
    const { stdout } = yield* Effect.promise(() =>
      run("sh", ["-c", text], {
        env: { ...process.env, CURL_HOME: path, PATH: `${process.env.PATH}:${path}` }
      })
    )
    expect(statuses(stdout)).toEqual(expected("curl").map((line) => `= ${line}`))
  })

  it.scopedLive("for fetch answer as documented", function* () {
    const { fill } = yield* sandbox
    const program = samplesIn("fetch").map(
      ({ call, sample }) => `{\n${linesOf(sample)}\nconsole.log("= ${call.operationId}", response.status)\n}`
    )
    const text = yield* Effect.promise(() =>
      fill([prepare("fetch"), ...program].join("\n"), JSON.stringify(webhookBody))
    )
    const { stdout } = yield* Effect.promise(() => run(process.execPath, ["--input-type=module", "-e", text]))
    expect(statuses(stdout)).toEqual(expected("fetch").map((line) => `= ${line}`))
  })

  it.scopedLive("for the client answer as documented", function* () {
    const { fill, slt } = yield* sandbox
    const program = samplesIn("client").map(
      ({ call, sample }) =>
        `{\n${linesOf(sample)}\nconsole.log("= ${call.operationId}", answer.ok, answer.metadata.requestId !== null)\n}`
    )
    const signedIn = `await client.login("${slt()}")`
    const text = yield* Effect.promise(() =>
      fill([prepare("client"), signedIn, ...program, "await client.close()"].join("\n"))
    )
    const path = yield* folder
    const outfile = join(path, "samples.mjs")
    yield* Effect.promise(() =>
      build({
        stdin: { contents: text, resolveDir: root },
        alias: { "music-client": join(root, "client/index.ts") },
        bundle: true,
        platform: "node",
        format: "esm",
        outfile
      })
    )
    const { stdout } = yield* Effect.promise(() => run(process.execPath, [outfile]))
    expect(statuses(stdout)).toEqual(samplesIn("client").map(({ call }) => `= ${call.operationId} true true`))
  })

  it("for fetch and the client have the right types", () => {
    const file = join(root, "samples.mts")
    const text = [
      prepare("client"),
      prepare("fetch"),
      "declare const token: string",
      ...(["fetch", "client"] as const).flatMap(samplesIn).map(({ sample }) => `{\n${linesOf(sample)}\n}`),
      "export {}"
    ].join("\n")
    const options: ts.CompilerOptions = {
      strict: true,
      exactOptionalPropertyTypes: true,
      noEmit: true,
      skipLibCheck: true,
      allowImportingTsExtensions: true,
      target: ts.ScriptTarget.ES2022,
      module: ts.ModuleKind.NodeNext,
      moduleResolution: ts.ModuleResolutionKind.NodeNext,
      types: ["node"],
      paths: { "music-client": [join(root, "client/index.ts")] }
    }
    const host = ts.createCompilerHost(options)
    const { fileExists, getSourceFile, readFile } = host
    host.fileExists = (name) => name === file || fileExists(name)
    host.readFile = (name) => (name === file ? text : readFile(name))
    host.getSourceFile = (name, version) =>
      name === file ? ts.createSourceFile(name, text, version) : getSourceFile(name, version)
    const program = ts.createProgram([file], options, host)
    const problems = program
      .getSemanticDiagnostics(program.getSourceFile(file))
      .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, "\n"))
    expect(problems).toEqual([])
  }, 60_000)
})
