/** The promise client in a page of a real browser. */
import { once } from "node:events"
import { readdir, readFile } from "node:fs/promises"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { build } from "esbuild"
import type { Browser, BrowserContext, Page } from "playwright-core"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { browserPatience, launchChromium } from "../browser/Chromium.ts"
import { root } from "../world/Fleet.ts"
import { scenarios } from "./suite/Scenarios.ts"
import { type Built, buildClient } from "./support/Built.ts"
import { startTestBench, type TestBench } from "./support/TestBench.ts"

/** Allowed by the sandbox's server. */
const origin = "http://localhost:5173"
const life = 1_800_000
const refresh = "/api/v1/auth/refresh"

let built: Built
let bench: TestBench
let port: number
let chromium: Browser
let browser: BrowserContext
const pages = createServer()

/** A script that puts the scenarios and the browser bundle on the global object. */
const suiteScript = async (): Promise<string> => {
  const contents = `
    import * as Client from ${JSON.stringify(join(built.folder, "index.js"))}
    import * as Telemetry from ${JSON.stringify(join(built.folder, "telemetry.js"))}
    import { scenarios } from ${JSON.stringify(join(root, "test/client/suite/Scenarios.ts"))}
    Object.assign(globalThis, { Kit: { ...Client, ...Telemetry }, scenarios })`
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: root },
    bundle: true,
    write: false,
    format: "iife",
    target: "es2022"
  })
  return outputFiles[0]?.text ?? ""
}

/** Serves the page from loopback, where a browser lets it talk to loopback; resolves to the port. */
const serve = async (): Promise<number> => {
  const files = new Map([
    ["/", "<!doctype html><title>page</title><script src=/suite.js></script>"],
    ["/suite.js", await suiteScript()]
  ])
  const example = "/examples/browser/index.html"
  files.set(example, await readFile(join(root, example), "utf8"))
  for (const name of await readdir(built.folder, { recursive: true }))
    if (name.endsWith(".js"))
      files.set(`/dist/client/${name}`, await readFile(join(built.folder, name), "utf8"))
  pages.on("request", (request, response) => {
    const { pathname } = new URL(request.url ?? "/", origin)
    response.writeHead(200, { "content-type": pathname.endsWith(".js") ? "text/javascript" : "text/html" })
    response.end(files.get(pathname) ?? "")
  })
  pages.listen(0, "127.0.0.1")
  await once(pages, "listening")
  return (pages.address() as AddressInfo).port
}

beforeAll(async () => {
  built = await buildClient({ types: false })
  bench = await startTestBench({ thorough: false, page: true })
  port = await serve()
  // The one origin that the server allows, wherever the page is really served.
  const rules = `--host-resolver-rules=MAP localhost:5173 127.0.0.1:${port}`
  chromium = await launchChromium([rules, "--no-proxy-server"])
  browser = await chromium.newContext()
  browser.setDefaultTimeout(browserPatience)
  await browser.exposeFunction("command", (name: keyof typeof bench.commands, parameters: never) =>
    bench.command(name, ...(parameters as []))
  )
})

afterAll(async () => {
  await chromium?.close()
  pages.close()
  await bench?.close()
  await built?.remove()
})

const inPage = <A>(page: Page, expression: string): Promise<A> => page.evaluate(expression)

/** Plays a test in pages of an address; they are closed at its end. */
const withPages = async (address: string, test: (...pages: [Page, Page]) => Promise<unknown>) => {
  const opened: [Page, Page] = [await browser.newPage(), await browser.newPage()]
  for (const page of opened) await page.goto(address)
  await test(...opened)
  for (const page of opened) await page.close()
}

describe("The promise client in Chromium", () => {
  it.each(scenarios.map(({ name }) => name))("%s", (name) =>
    withPages(`${origin}/`, (page) => {
      const environment = `{ base: ${JSON.stringify(bench.base)}, thorough: false, page: true, command: (name, ...given) => command(name, given) }`
      return inPage(
        page,
        `scenarios.find(({ name }) => name === ${JSON.stringify(name)}).run(${environment}, Kit)`
      )
    })
  )

  const client = (lane: string, telemetry = false) =>
    `Kit.createMusicClient({ baseUrl: ${JSON.stringify(`${bench.base}/${lane}`)}, source: "web",
       telemetry: ${telemetry}, sessionStore: Kit.webSessionStore() })`

  it("refreshes once in two tabs", () =>
    withPages(`${origin}/`, async (...tabs) => {
      const slt = JSON.stringify(bench.commands.slt())
      expect(await inPage(tabs[0], `${client("tabs")}.login(${slt})`)).toMatchObject({ ok: true })
      bench.commands.advance(life)
      const many = `{ const client = ${client("tabs")}; Promise.all([client.me(), client.me(), client.me()]) }`
      const results = await Promise.all(tabs.map((tab) => inPage<Array<object>>(tab, many)))
      for (const result of results.flat()) expect(result).toMatchObject({ ok: true })
      expect(bench.commands.attempts("tabs", refresh)).toBe(1)
    }))

  it("says that the service does not allow the page's origin, at once and with the setting's name", () =>
    // The same page under an origin that the server does not allow.
    withPages(`http://127.0.0.1:${port}/`, async (page) => {
      const hint = expect.stringContaining("MUSIC_WEB_ORIGINS")
      const error = { code: "transport_failed", retryable: false, details: { reason: "cors" }, hint }
      expect(await inPage(page, `${client("origin")}.version()`)).toMatchObject({ ok: false, error })
      // The first attempt's failure: the call itself is repeated until its deadline.
      const away = `new Promise((resolve) => Kit.createMusicClient({ baseUrl: "http://127.0.0.1:2", source: "web",
         telemetry: false, onEvent: ({ type, error }) => type === "response" && resolve(error) }).version())`
      expect(await inPage(page, away)).toMatchObject({ details: { reason: "network" } })
    }))

  it("sends its last events when the page is closed", () =>
    withPages(`${origin}/`, async (page) => {
      const event = `"musicfrontendevents", { type: "page.left", data: {} }`
      const record = `Kit.createTelemetry(globalThis.client = ${client("gone", true)}).record(${event}).value.id`
      const id = await inPage<string>(page, record)
      await page.goto("about:blank")
      await expect.poll(() => bench.commands.rows("musicfrontendevents", id)).toBe(1)
    }))
})

it("The example page logs in, notifies and logs out", async () => {
  await withPages(`${origin}/examples/browser/index.html?server=${bench.base}/example`, async (page) => {
    const shows = (place: string, text: string) => expect.poll(() => page.textContent(place)).toBe(text)
    await shows("#state", "logged_out")
    await page.fill("[name=slt]", bench.commands.slt())
    await page.click("text=Log in")
    await shows("#state", "signed in as si:deejay")
    await page.click("#ting")
    await shows("#message", "Sent.")
    await page.click("#logout")
    await shows("#state", "logged_out")
  })
})
