import { afterAll, beforeAll, describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import type { Browser, BrowserContextOptions, Page } from "playwright-core"
import { callsOf, freshDocument } from "../http/Documented.ts"
import { backend } from "../http/support.ts"
import { launchChromium } from "./Chromium.ts"
import { openPage, type Visit } from "./Visit.ts"

const calls = callsOf(freshDocument())

let browser: Browser
beforeAll(async () => {
  browser = await launchChromium()
})
afterAll(() => browser?.close())

const visit = (hash: string, options: BrowserContextOptions, use: (visit: Visit) => Promise<void>) =>
  Effect.flatMap(backend(), ({ port }) =>
    Effect.promise(() => openPage(browser, `http://127.0.0.1:${port}/docs`, hash, options, use))
  )

const visible = (page: Page, selector: string) => page.locator(`${selector}:visible`).count()

describe("The page of the API, in Chromium", () => {
  it.scoped("renders under its policy without errors, and makes no other request", () =>
    visit("", {}, async ({ page, complaints, asked, url }) => {
      expect(await page.title()).toMatch(/^Music backend .*: API$/)
      expect(await visible(page, "section.call")).toBe(calls.length)
      expect(await page.locator(".origin").first().textContent()).toBe(url.slice(0, -"/docs".length))
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
      expect(await visible(page, "button")).toBe(0)
      expect(await visible(page, "#auth\\.login .samples pre")).toBe(5)
      expect(await visible(page, "#auth\\.login table.failures tr")).toBeGreaterThan(15)
      expect(complaints).toEqual([])
    })
  )

  const panelOf = (page: Page, call: string) =>
    page.locator(`section[id="${call}"] [role=tabpanel]:visible`).getAttribute("data-language")

  it.scoped(
    "keeps the language of the samples for all calls and visits, and its first where it has none",
    () =>
      visit("#auth.me", {}, async ({ page, complaints }) => {
        expect(await panelOf(page, "auth.me")).toBe("curl")
        const tab = page.locator('section[id="auth.me"] [role=tab][data-language=client]')
        const before = (await tab.boundingBox())?.y
        await tab.click()
        expect((await tab.boundingBox())?.y).toBeCloseTo(before ?? 0, 0)
        expect(await panelOf(page, "auth.me")).toBe("client")
        expect(await panelOf(page, "tings.send")).toBe("client")
        expect(await panelOf(page, "webhooks.receive")).toBe("curl")
        await page.reload()
        expect(await panelOf(page, "tings.send")).toBe("client")
        expect(complaints).toEqual([])
      })
  )

  it.scoped("copies every block of code", () =>
    visit("", { permissions: ["clipboard-read", "clipboard-write"] }, async ({ page, complaints }) => {
      expect(await page.locator("pre").count()).toBe(await page.locator("pre + button.copy").count())
      const block = page.locator('section[id="auth.login"] .code:visible').nth(1)
      await block.getByRole("button").click()
      await expect
        .poll(() => page.evaluate("navigator.clipboard.readText()"), { timeout: 60_000 })
        .toBe(await block.locator("pre").textContent())
      expect(complaints).toEqual([])
    })
  )
})
