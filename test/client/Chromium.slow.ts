import { once } from "node:events"
import { readFileSync } from "node:fs"
import { readdir } from "node:fs/promises"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import type { Browser, BrowserContext, Page } from "playwright-core"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { root } from "../world/Fleet.ts"
import { scenarios } from "./suite/Scenarios.ts"
import { type Built, buildClient } from "./support/Built.ts"
import { suiteScript } from "./support/SuiteScript.ts"
import { startTestBench, type TestBench } from "./support/TestBench.ts"
import { browserPatience, launchChromium } from "../browser/Chromium.ts"

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

/** Serves the page from loopback, where a browser lets it talk to loopback; resolves to the port. */
const serve = async (script: string): Promise<number> => {
  const shipped = (await readdir(built.folder, { recursive: true })).filter((name) => name.endsWith(".js"))
  const files: Readonly<Record<string, readonly [type: string, text: string]>> = {
    "/": ["text/html", "<!doctype html><title>page</title><script src=/suite.js></script>"],
    "/suite.js": ["text/javascript", script],
    "/examples/browser/index.html": [
      "text/html",
      readFileSync(join(root, "examples/browser/index.html"), "utf8")
    ],
    ...Object.fromEntries(
      shipped.map((name) => [
        `/dist/client/${name}`,
        ["text/javascript", readFileSync(join(built.folder, name), "utf8")] as const
      ])
    )
  }
  pages.on("request", (request: IncomingMessage, response: ServerResponse) => {
    const [type, text] = files[new URL(request.url ?? "/", origin).pathname] ?? ["text/plain", ""]
    response.writeHead(200, { "content-type": type })
    response.end(text)
  })
  pages.listen(0, "127.0.0.1")
  await once(pages, "listening")
  return (pages.address() as AddressInfo).port
}

beforeAll(async () => {
  built = await buildClient({ types: false })
  bench = await startTestBench({ thorough: false, page: true })
  port = await serve(await suiteScript(join(built.folder, "index.js")))
  // The one origin that the server allows, wherever the page is really served.
  chromium = await launchChromium([
    `--host-resolver-rules=MAP localhost:5173 127.0.0.1:${port}`,
    "--no-proxy-server"
  ])
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
/** The bench as a page reaches it. */
const benchInPage = () => `({
  base: ${JSON.stringify(bench.base)}, thorough: false, page: true,
  command: (name, ...parameters) => globalThis.command(name, parameters)
})`

const opened = async (): Promise<Page> => {
  const page = await browser.newPage()
  await page.goto(`${origin}/`)
  return page
}

describe("The promise client in Chromium", () => {
  for (const { name } of scenarios) {
    it(name, async () => {
      const page = await opened()
      await inPage(page, `suite.run(${JSON.stringify(name)}, ${benchInPage()})`)
      await page.close()
    })
  }

  const client = (lane: string, telemetry = false) =>
    `Kit.createMusicClient({ baseUrl: ${JSON.stringify(`${bench.base}/${lane}`)}, source: "web",
       telemetry: ${telemetry}, sessionStore: Kit.webSessionStore() })`

  it("refreshes once in two tabs", async () => {
    const [first, second] = [await opened(), await opened()]
    const slt = JSON.stringify(bench.commands.slt())
    expect(await inPage(first, `${client("tabs")}.login(${slt})`)).toMatchObject({ ok: true })
    bench.commands.advance(life)
    const many = `{ const client = ${client("tabs")}; Promise.all([client.me(), client.me(), client.me()]) }`
    const results = await Promise.all([
      inPage<Array<object>>(first, many),
      inPage<Array<object>>(second, many)
    ])
    for (const result of results.flat()) expect(result).toMatchObject({ ok: true })
    expect(bench.commands.attempts("tabs", refresh)).toBe(1)
    await first.close()
    await second.close()
  })

  it("says that the service does not allow the page's origin, at once and with the setting's name", async () => {
    const page = await browser.newPage()
    // The same page under an origin that the server does not allow.
    await page.goto(`http://127.0.0.1:${port}/`)
    const refused = await inPage<object>(page, `${client("origin")}.version()`)
    expect(refused).toMatchObject({
      ok: false,
      error: {
        code: "transport_failed",
        retryable: false,
        details: { reason: "cors" },
        hint: expect.stringContaining("MUSIC_WEB_ORIGINS")
      }
    })
    // A lost connection is none of that: the first call of an allowed page is repeated.
    const allowed = await opened()
    await bench.command("fault", { lane: "first", path: "/api/v1/version", kind: "cut-before", times: 1 })
    expect(await inPage<object>(allowed, `${client("first")}.version()`)).toMatchObject({ ok: true })
    await allowed.close()
    // The first attempt's failure: the call itself is repeated until its deadline.
    const away = `new Promise((resolve) => Kit.createMusicClient({ baseUrl: "http://127.0.0.1:1", source: "web",
       telemetry: false, onEvent: ({ type, error }) => type === "response" && resolve(error) }).version())`
    expect(await inPage<object>(page, away)).toMatchObject({ details: { reason: "network" } })
    await page.close()
  })

  it("shows one tab's writes to the next holder of the lock", async () => {
    const tabs = [await opened(), await opened()]
    const rounds = 40
    // Each adds one under the lock; a tab that reads an old value would overwrite the other's.
    const adding = `(async () => {
      const store = Kit.webSessionStore()
      for (let round = 0; round < ${rounds}; round += 1) {
        const release = await store.lock.acquire("counted", new AbortController().signal)
        await store.save("counted", { count: ((await store.load("counted"))?.count ?? 0) + 1 })
        await release()
      }
    })()`
    await Promise.all(tabs.map((tab) => inPage(tab, adding)))
    for (const tab of tabs) {
      expect(await inPage(tab, `Kit.webSessionStore().load("counted")`)).toEqual({
        count: tabs.length * rounds
      })
      await tab.close()
    }
  })

  it("sends its last events when the page is closed", async () => {
    const page = await opened()
    const id = await inPage<string>(
      page,
      `{ globalThis.client = ${client("gone", true)};
         client.telemetry.record("musicfrontendevents", { type: "page.left", data: {} }).value.id }`
    )
    await page.goto("about:blank")
    await expect.poll(() => bench.commands.rows("musicfrontendevents", id)).toBe(1)
    await page.close()
  })
})

describe("The example page", () => {
  it("logs in, notifies and logs out", async () => {
    const page = await browser.newPage()
    await page.goto(`${origin}/examples/browser/index.html?server=${bench.base}/example`)
    await expect.poll(() => page.textContent("#state")).toBe("logged_out")
    await page.fill("[name=slt]", bench.commands.slt())
    await page.click("text=Log in")
    await expect.poll(() => page.textContent("#state")).toBe("signed in as si:deejay")
    await page.click("#ting")
    await expect.poll(() => page.textContent("#message")).toBe("Sent.")
    await page.click("#logout")
    await expect.poll(() => page.textContent("#state")).toBe("logged_out")
    await page.close()
  })
})
