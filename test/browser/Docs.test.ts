import { afterAll, beforeAll, describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { Browser, BrowserContextOptions, Page } from "playwright-core"
import { callsOf, freshDocument } from "../http/Documented.ts"
import { backend } from "../http/support.ts"
import { browserPatience, launchChromium } from "./Chromium.ts"

const calls = callsOf(freshDocument())

let browser: Browser
beforeAll(async () => {
  browser = await launchChromium()
})
afterAll(() => browser?.close())

interface Visit {
  readonly page: Page
  /** Errors of the console, the page and its requests. */
  readonly complaints: ReadonlyArray<string>
  /** URLs of all requests. */
  readonly asked: ReadonlyArray<string>
  readonly url: string
}

const visit = (hash: string, options: BrowserContextOptions, use: (visit: Visit) => Promise<void>) =>
  Effect.gen(function* () {
    const { port } = yield* backend()
    const url = `http://127.0.0.1:${port}/docs`
    yield* Effect.promise(async () => {
      const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options })
      context.setDefaultTimeout(browserPatience)
      try {
        const page = await context.newPage()
        const complaints: Array<string> = []
        const asked: Array<string> = []
        page.on("console", (message) => complaints.push(message.text()))
        page.on("pageerror", (error) => complaints.push(error.message))
        page.on("requestfailed", (request) => complaints.push(`failed: ${request.url()}`))
        page.on("request", (request) => asked.push(request.url()))
        await page.goto(`${url}${hash}`)
        await use({ page, complaints, asked, url })
      } finally {
        await context.close()
      }
    })
  })

const visible = (page: Page, selector: string) => page.locator(`${selector}:visible`).count()

describe("The page of the API, in Chromium", () => {
  it.scoped("renders under its policy without errors, and makes no other request", () =>
    visit("", {}, async ({ page, complaints, asked, url }) => {
      expect(await page.title()).toMatch(/^Music backend .*: API$/)
      expect(await visible(page, "section.call")).toBe(calls.length)
      expect(await page.locator("#origin").textContent()).toBe(url.slice(0, -"/docs".length))
      expect(complaints).toEqual([])
      expect(asked.filter((address) => !address.startsWith("data:"))).toEqual([url])
    })
  )

  it.scoped("runs no other script and sends nothing to another host under its policy", () =>
    visit("", {}, async ({ page, complaints, asked }) => {
      const inserted = await page.evaluate(`(() => {
        const script = document.createElement("script")
        try { script.textContent = "window.intruded = true"; document.head.append(script) } catch (error) { return error.name }
        return String(window.intruded)
      })()`)
      expect(["undefined", "TypeError"]).toContain(inserted)
      expect(await page.evaluate("typeof window.intruded")).toBe("undefined")
      const before = asked.length
      expect(await page.evaluate('fetch("/api/v1/version").then(() => "sent", (error) => error.name)')).toBe(
        "TypeError"
      )
      expect(asked.length).toBe(before)
      expect(complaints.join("\n")).toMatch(/Content Security Policy/)
    })
  )

  it.scoped("a deep link shows its call", () =>
    visit("#tings.send", {}, async ({ page }) => {
      const top = await page.evaluate('document.getElementById("tings.send").getBoundingClientRect().top')
      expect(Number(top)).toBeLessThan(100)
      await page.click('#tings\\.send a[href="#error-recipient_not_registered"] >> nth=0')
      expect(await page.evaluate('document.querySelector(":target").id')).toBe(
        "error-recipient_not_registered"
      )
    })
  )

  it.scoped("search hides sections that do not match, a link ends it, and so does Escape", () =>
    visit("", {}, async ({ page, complaints }) => {
      await page.keyboard.press("/")
      await page.keyboard.type("slt_rejected")
      expect(await visible(page, "section.call")).toBe(1)
      expect(await visible(page, "nav li a[href^='#auth.']")).toBe(1)
      expect(await page.locator("#found").textContent()).toBe("2 sections")
      await page.evaluate('location.hash = "#tings.send"')
      await page.waitForFunction('document.getElementById("search").value === ""')
      expect(await visible(page, "section.call")).toBe(calls.length)
      await page.fill("#search", "zzzz")
      expect(await visible(page, "section.call")).toBe(0)
      await page.press("#search", "Escape")
      expect(await visible(page, "section.call")).toBe(calls.length)
      expect(complaints).toEqual([])
    })
  )

  it.scoped("shows everything without scripts, except the search", () =>
    visit("#auth.login", { javaScriptEnabled: false }, async ({ page, complaints }) => {
      expect(await visible(page, "section.call")).toBe(calls.length)
      expect(await visible(page, "#search")).toBe(0)
      expect(await visible(page, "#auth\\.login table.failures tr")).toBeGreaterThan(15)
      expect(complaints).toEqual([])
    })
  )

  it.scoped.each([
    ["light", "rgb(255, 255, 255)"],
    ["dark", "rgb(18, 22, 28)"]
  ] as const)("follows the reader's color scheme: %s", ([colorScheme, ground]) =>
    visit("", { colorScheme }, async ({ page }) => {
      expect(await page.evaluate("getComputedStyle(document.body).backgroundColor")).toBe(ground)
    })
  )

  it.scoped("fits a narrow screen: only tables and commands scroll sideways", () =>
    visit("", { viewport: { width: 360, height: 700 } }, async ({ page }) => {
      expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBe(0)
    })
  )

  it.scoped("reaches the content first by keyboard", () =>
    visit("", {}, async ({ page }) => {
      await page.keyboard.press("Tab")
      expect(await page.evaluate("document.activeElement.textContent")).toBe("To the content")
    })
  )
})
