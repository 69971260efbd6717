/** The promise client in a page of a real browser. */
import { once } from "node:events"
import { readdir, readFile } from "node:fs/promises"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { build } from "esbuild"
import type { Browser, BrowserContext, Page } from "playwright-core"
import { afterAll, beforeAll, expect, it } from "vitest"
import { browserPatience, launchChromium } from "../browser/Chromium.ts"
import { root } from "../world/Fleet.ts"
import { type Built, buildClient } from "./support/Built.ts"
import { failed, ok } from "./support/ClientWorld.ts"
import { life } from "./support/Service.ts"
import { startTestBench, type TestBench } from "./support/TestBench.ts"

/** Allowed by the sandbox's server. */
const origin = "http://localhost:5173"
const paths = { refresh: "/api/v1/auth/refresh", me: "/api/v1/auth/me" }

/** An answer from something in between. */
const inBetween = (status: number, headers = {}) => ({
  status,
  headers: { "content-type": "text/html", "access-control-allow-origin": "*", ...headers },
  body: "<html></html>"
})

let built: Built
let bench: TestBench
let port: number
let chromium: Browser
let browser: BrowserContext
const pages = createServer()

/** Serves the example page, and a page with the browser bundle on its global object, from loopback, where a browser lets it talk to loopback. */
const serve = async (): Promise<number> => {
  const contents = `
    import * as Client from ${JSON.stringify(join(built.path, "index.js"))}
    import * as Telemetry from ${JSON.stringify(join(built.path, "telemetry.js"))}
    Object.assign(globalThis, { Kit: { ...Client, ...Telemetry } })`
  const stdin = { contents, resolveDir: root }
  const { outputFiles } = await build({ stdin, bundle: true, write: false, format: "iife", target: "es2022" })
  const example = "/examples/browser/index.html"
  const files = new Map([
    ["/", "<!doctype html><title>page</title><script src=/kit.js></script>"],
    ["/kit.js", outputFiles[0]?.text ?? ""],
    [example, await readFile(join(root, example), "utf8")]
  ])
  for (const name of await readdir(built.path, { recursive: true }))
    if (name.endsWith(".js"))
      files.set(`/dist/client/${name}`, await readFile(join(built.path, name), "utf8"))
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
  bench = await startTestBench()
  port = await serve()
  // The one origin that the server allows, wherever the page is really served.
  const rules = `--host-resolver-rules=MAP localhost:5173 127.0.0.1:${port}`
  chromium = await launchChromium([rules, "--no-proxy-server"])
  browser = await chromium.newContext()
  browser.setDefaultTimeout(browserPatience)
})

afterAll(async () => {
  await chromium?.close()
  pages.close()
  await bench?.close()
  built?.remove()
})

const inPage = <A>(page: Page, expression: string): Promise<A> => page.evaluate(expression)

/** Plays a test in pages of an address; they are closed at its end. */
const withPages = async (address: string, test: (...pages: [Page, Page]) => Promise<unknown>) => {
  const opened: [Page, Page] = [await browser.newPage(), await browser.newPage()]
  for (const page of opened) await page.goto(address)
  await test(...opened)
  for (const page of opened) await page.close()
}

const client = (lane: string, telemetry = false) =>
  `Kit.createMusicClient({ baseUrl: ${JSON.stringify(`${bench.base}/${lane}`)}, source: "web",
     telemetry: ${telemetry}, sessionStore: Kit.webSessionStore() })`
const login = (lane: string) => `${client(lane)}.login(${JSON.stringify(bench.slt())})`

it("Two tabs refresh once, also when the first answer is lost", () =>
  withPages(`${origin}/`, async (...tabs) => {
    expect(await inPage(tabs[0], login("tabs"))).toMatchObject(ok)
    const many = `{ const client = ${client("tabs")}; Promise.all([client.me(), client.me(), client.me()]) }`
    for (const fault of [false, true]) {
      if (fault) bench.fault("tabs", `POST ${paths.refresh}`, { kind: "reply-after", reply: inBetween(502) })
      bench.advance(life)
      const results = await Promise.all(tabs.map((tab) => inPage<Array<object>>(tab, many)))
      for (const result of results.flat()) expect(result).toMatchObject(ok)
    }
    const [first, ...others] = bench.headers("tabs", paths.refresh, "idempotency-key")
    expect(others).toHaveLength(2)
    expect(others[0]).toBe(others[1])
    expect(others[0]).not.toBe(first)
  }))

it("A call is repeated after an answer that was lost; a redirect is not followed", () =>
  withPages(`${origin}/`, async (page) => {
    expect(await inPage(page, login("faults"))).toMatchObject(ok)
    bench.fault("faults", "POST /api/v1/tings", { kind: "drop-after" })
    const event = `{ type: "music.trigger.fired", key: "cut", data: {} }`
    expect(await inPage(page, `${client("faults")}.ting(${event})`)).toMatchObject(ok)
    expect(bench.tings("si:deejay/cut")).toBe(1)
    // To where the server would answer the call.
    const reply = inBetween(307, { location: `/redirected${paths.me}` })
    bench.fault("faults", `GET ${paths.me}`, { kind: "reply", reply })
    const redirected = failed("unexpected_answer", "redirect")
    expect(await inPage(page, `${client("faults")}.me()`)).toMatchObject(redirected)
    expect(bench.attempts("redirected", paths.me)).toBe(0)
  }))

it("The client says that the service does not allow the page's origin, at once and with the setting's name", () =>
  // The same page under an origin that the server does not allow.
  withPages(`http://127.0.0.1:${port}/`, async (page) => {
    const hint = expect.stringContaining("MUSIC_WEB_ORIGINS")
    const refused = failed("transport_failed", "cors", { retryable: false, hint })
    expect(await inPage(page, `${client("origin")}.version()`)).toMatchObject(refused)
    // The first attempt's failure: the call itself is repeated until its deadline.
    const away = `new Promise((resolve) => Kit.createMusicClient({ baseUrl: "http://127.0.0.1:2", source: "web",
       telemetry: false, onEvent: ({ type, error }) => type === "response" && resolve(error) }).version())`
    expect(await inPage(page, away)).toMatchObject({ details: { reason: "network" } })
  }))

it("The last events are sent when the page is closed", () =>
  withPages(`${origin}/`, async (page) => {
    const event = `"musicfrontendevents", { type: "page.left", data: {} }`
    const record = `Kit.createTelemetry(globalThis.client = ${client("gone", true)}).record(${event}).value.id`
    const id = await inPage<string>(page, record)
    await page.goto("about:blank")
    await expect.poll(() => bench.rows("musicfrontendevents", id)).toBe(1)
  }))

it("The example page logs in, notifies and logs out", () =>
  withPages(`${origin}/examples/browser/index.html?server=${bench.base}/example`, async (page) => {
    const shows = (place: string, text: string) => expect.poll(() => page.textContent(place)).toBe(text)
    await shows("#state", "logged_out")
    await page.fill("[name=slt]", bench.slt())
    await page.click("text=Log in")
    await shows("#state", "signed in as si:deejay")
    await page.click("#ting")
    await shows("#message", "Sent.")
    await page.click("#logout")
    await shows("#state", "logged_out")
  }))
