/** How the console's page looks to machines: accessibility by axe-core, and widths. */
import { readFileSync } from "node:fs"
import { writeFile } from "node:fs/promises"
import { createRequire } from "node:module"
import { afterAll, beforeAll, describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import type { Browser, Page } from "playwright-core"
import { launchChromium } from "./Chromium.ts"
import { button, lesson, logIn, shown, visitWith } from "./ConsoleVisit.ts"

let browser: Browser
beforeAll(async () => {
  browser = await launchChromium()
})
afterAll(() => browser?.close())

const visit = visitWith(() => browser)
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8")

/** Fills every part of the page: a ting, an issue, a session that ended, a fault and calls that met it. */
const fill = async (page: Page) => {
  await logIn(page)
  await button(page, "Send ting").click()
  await page.getByRole("region", { name: "Inbox" }).getByRole("listitem").waitFor()
  await button(page, /^Refresh,/).click()
  await shown(page).filter({ hasText: "Refresh" }).waitFor()
  await button(page, /^Reuse spent,/).click()
  await page.locator(".session.compromised").waitFor()
  await page.getByRole("tab", { name: "Report" }).click()
  await button(page, "Send report").click()
  await page.getByRole("region", { name: "Issues" }).getByRole("listitem").waitFor()
  await logIn(page, "c:ana")
  await page.getByLabel("How often").selectOption("10")
  await button(page, "Add fault").click()
  await page.locator(".strip").waitFor()
  await button(page, /^Refresh, c:ana/).click()
  await shown(page).filter({ hasText: /50\d/ }).waitFor()
}

/** Rules that the page breaks, with the elements. */
const violations = async (page: Page): Promise<unknown> =>
  page.evaluate(`axe.run({ resultTypes: ["violations"] }).then(({ violations }) =>
    violations.map(({ id, impact, nodes }) => ({ id, impact, nodes: nodes.slice(0, 5).map(({ html }) => html) })))`)

/** What can be pressed and is less than 24 pixels high. */
const smallTargets = `[...document.querySelectorAll("button, summary, select, textarea, a:not(.skip)")]
  .filter((target) => target.checkVisibility() && target.getBoundingClientRect().height < 24)
  .map(({ outerHTML }) => outerHTML)`

const wide = { width: 1440, height: 900 }
const narrow = { width: 400, height: 800 }

describe("The console's page", () => {
  it.scoped.each([
    ["light", wide],
    ["dark", narrow]
  ] as const)("breaks no rule of axe: %s, %o", ([colorScheme, viewport]) =>
    visit({ colorScheme, viewport, tour: true }, async ({ page }) => {
      await page.evaluate(axe)
      expect(await violations(page)).toEqual([])
      await fill(page)
      expect(await violations(page)).toEqual([])
      expect(await page.evaluate(smallTargets)).toEqual([])
      await button(page, "End tour").click()
      await button(page, /^Help/).click()
      await page.getByRole("dialog").waitFor()
      expect(await violations(page)).toEqual([])
    })
  )

  /** `CONSOLE_PICTURE=docs/console.png` writes the picture of README. */
  it.scoped("fits on one screen of 1440 by 900, of which README has a picture", () =>
    visit({ colorScheme: "light" }, async ({ page }) => {
      await logIn(page)
      await button(page, "Send ting").click()
      await page.getByRole("tab", { name: "Telemetry" }).click()
      await button(page, "Send event").click()
      await page.getByRole("tab", { name: "Report" }).click()
      await button(page, "Send report").click()
      for (const arrivals of ["Inbox", "Issues", "Rows"]) {
        await page.getByRole("region", { name: arrivals }).getByRole("listitem").waitFor()
      }
      await page.getByRole("tab", { name: "Ting" }).click()
      await button(page, "Get SLT, for c:ana").click()
      await button(page, "Add fault").click()
      await button(page, /^Refresh,/).click()
      await lesson(page).filter({ hasText: "the retry under the same key" }).waitFor()
      expect(
        await page.evaluate(
          "[document.documentElement.scrollWidth - innerWidth, document.documentElement.scrollHeight - innerHeight]"
        )
      ).toEqual([0, 0])
      const target = process.env.CONSOLE_PICTURE
      if (target !== undefined) await writeFile(target, await page.screenshot({ animations: "disabled" }))
    })
  )
})
