/** The guided tour of the console's page, with the real sandbox behind it. */
import { afterAll, beforeAll, describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import type { Browser, Page } from "playwright-core"
import { launchChromium } from "./Chromium.ts"
import { button, inbox, lesson, logIn, sendTing, visitWith } from "./ConsoleVisit.ts"

let browser: Browser
beforeAll(async () => {
  browser = await launchChromium()
})
afterAll(() => browser?.close())

const visit = visitWith(() => browser)

/** The parts of the tour that a test uses. */
const tourOf = (page: Page) => {
  const tour = page.getByRole("complementary", { name: "Guided tour" })
  const press = (name: string) => tour.getByRole("button", { name }).click()
  return {
    tour,
    press,
    isDone: () => tour.locator("h2 .badge").waitFor(),
    at: (step: number) => tour.getByText(`${step} of 6 ·`).waitFor(),
    advises: (text: string) => tour.getByRole("status").filter({ hasText: text }).waitFor(),
    isSaid: (text: string) =>
      page.locator("body > [role=status]").filter({ hasText: text }).waitFor({ state: "attached" })
  }
}

describe("The tour", () => {
  it.scoped("leads a first visitor through six real steps, by mouse", () =>
    visit({ tour: true }, async ({ page }) => {
      const { isDone, press, tour } = tourOf(page)
      const next = () => press("Next step")
      await logIn(page)
      await isDone()
      await next()
      await sendTing(page)
      await isDone()
      await inbox(page).waitFor()
      await next()
      await button(page, "Send again").click()
      await isDone()
      expect(await inbox(page).count()).toBe(1)
      await next()
      await button(page, "Add fault").click()
      await page.getByText("Faults are active.").waitFor()
      await button(page, /^Refresh,/).click()
      await isDone()
      expect(await lesson(page).innerText()).toContain("the retry under the same key got the same result")
      await next()
      await button(page, /^Reuse spent,/).click()
      await isDone()
      await page.locator(".session .badge", { hasText: "compromised" }).waitFor()
      await next()
      await page.getByRole("tab", { name: "Report" }).click()
      await button(page, "Send report").click()
      await isDone()
      await page.getByRole("region", { name: "Issues" }).getByRole("listitem").waitFor()
      await press("Finish")
      await page.reload()
      await button(page, "Tour").waitFor()
      expect(await tour.count()).toBe(0)
    })
  )

  it.scoped("says why another action has not done a step, and can be done twice in every plane", () =>
    visit({ tour: true }, async ({ page }) => {
      const { advises, at, isDone, press, tour } = tourOf(page)
      await logIn(page)
      await press("Next step")
      await sendTing(page)
      await isDone()
      await press("Next step")
      await page.locator("button.record", { hasText: "Log in" }).click()
      await button(page, "Send again").click()
      await advises("repeated another action")
      await sendTing(page)
      await advises("for the first time")
      await button(page, "Send again").click()
      await isDone()
      await press("Next step")
      await button(page, "Add fault").click()
      await page.locator(".strip").waitFor()
      await logIn(page, "c:ana")
      await advises("used the fault up")
      await press("Skip step")
      await button(page, /^Refresh, c:ana/).click()
      await lesson(page).filter({ hasText: "new pair" }).waitFor()
      await button(page, /^Log out, c:ana/).click()
      await advises("tokens are dead")
      await button(page, /^Reuse spent, c:ana/).click()
      await advises("was over before")
      await press("Skip step")
      await page.getByRole("radio", { name: /^Testing/ }).check({ force: true })
      await logIn(page)
      await page.getByRole("tab", { name: "Report" }).click()
      await button(page, "Send report").click()
      await advises("never filed")
      expect(await lesson(page).innerText()).toContain("never filed")
      const form = page.getByRole("tabpanel", { name: "Report" })
      await form.getByLabel("Caller").selectOption("")
      await button(page, "Send report").click()
      await page.locator("button.record", { hasText: "a caller without a session" }).waitFor()
      await advises("never filed")
      expect(await lesson(page).innerText()).toContain("never filed")
      await page.getByRole("radio", { name: "Production" }).check({ force: true })
      await form.getByText("filed afterwards as an issue").waitFor()
      await button(page, "Send report").click()
      await isDone()
      await press("Finish")
      await tour.waitFor({ state: "detached" })
      await button(page, "Tour").click()
      await at(1)
      await press("Skip step")
      await page.getByRole("tab", { name: "Ting" }).click()
      await sendTing(page)
      await isDone()
      expect(await inbox(page).allInnerTexts()).toEqual([
        expect.stringContaining("/trigger/3"),
        expect.stringContaining("/trigger/2"),
        expect.stringContaining("/trigger/1")
      ])
    })
  )
})
