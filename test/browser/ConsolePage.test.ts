/** What a person does on the console's page, with the real sandbox behind it. */
import { execFile } from "node:child_process"
import { promisify } from "node:util"
import { afterAll, beforeAll, describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import type { Browser, Page } from "playwright-core"
import { launchChromium } from "./Chromium.ts"
import { button, inbox, lesson, logIn, sendTing, shown, visitWith } from "./ConsoleVisit.ts"

let browser: Browser
beforeAll(async () => {
  browser = await launchChromium()
})
afterAll(() => browser?.close())

const visit = visitWith(() => browser)
const run = promisify(execFile)

/** Presses Tab until the focus is on what has the name. */
const tabTo = async (page: Page, name: RegExp) => {
  const names: Array<string> = []
  while (names.length < 120) {
    await page.keyboard.press("Tab")
    const focused: unknown = await page.evaluate(
      '(document.activeElement.ariaLabel ?? document.activeElement.textContent ?? "").trim()'
    )
    names.push(String(focused))
    if (name.test(String(focused))) return
  }
  throw new Error(`Tab does not reach ${name}; it reaches ${names.join(" | ")}`)
}

describe("The controls", () => {
  it.scoped("lead from the first key to a repeated ting without a mouse", () =>
    visit({}, async ({ page }) => {
      await page.keyboard.press("Tab")
      expect(await page.evaluate("document.activeElement.textContent")).toBe("To the controls")
      await page.keyboard.press("Enter")
      await tabTo(page, /^Get SLT, for si:deejay/)
      await page.keyboard.press("Enter")
      await button(page, /^Log in, as si:deejay/).waitFor()
      await tabTo(page, /^Log in, as si:deejay/)
      await page.keyboard.press("Enter")
      await page.locator(".session").waitFor()
      // The button is gone with its token; the focus stays beside it.
      await page.waitForFunction('document.activeElement.ariaLabel === "Get SLT, for si:deejay"')
      await tabTo(page, /^Send ting$/)
      await page.keyboard.press("Space")
      await inbox(page).waitFor()
      await page.keyboard.press("r")
      await lesson(page).filter({ hasText: "Nothing is done twice" }).waitFor()
      await page.keyboard.press("3")
      expect(await page.evaluate("document.activeElement.id")).toBe("journal")
      await page.keyboard.press("Tab")
      await page.keyboard.press("ArrowDown")
      await lesson(page).filter({ hasText: "IAM issued a proof" }).waitFor()
      await page.keyboard.press("?")
      await page.getByRole("dialog", { name: "Help" }).waitFor()
      await page.keyboard.press("Escape")
      await page.getByRole("dialog").waitFor({ state: "detached" })
    })
  )

  it.scoped("say why they cannot be used, and what to do", () =>
    visit({ mayFail: true }, async ({ page }) => {
      await button(page, "Send ting").press("Enter")
      await page.getByRole("alert").filter({ hasText: "In Callers, get an SLT and log in." }).waitFor()
      await logIn(page)
      await page.getByLabel("Data (JSON)").first().fill("{ no")
      await button(page, "Send ting").click()
      await page.locator(".problem").filter({ hasText: "JSON" }).waitFor()
      expect(await inbox(page).count()).toBe(0)
    })
  )

  it.scoped("replay a refresh, reuse its token, and show that the login has ended", () =>
    visit({}, async ({ page }) => {
      await logIn(page)
      const shownToken = () => button(page, /^Copy access token of si:deejay, session/).innerText()
      const first = await shownToken()
      await button(page, /^Refresh,/).click()
      await lesson(page).filter({ hasText: "new pair" }).waitFor()
      await expect.poll(shownToken, { timeout: 60_000 }).not.toBe(first)
      const token = await shownToken()
      await button(page, /^Replay refresh,/).click()
      await lesson(page).filter({ hasText: "a retry, not a theft" }).waitFor()
      expect(await shownToken()).toBe(token)
      await button(page, /^Reuse spent,/).click()
      await lesson(page).filter({ hasText: "looks like a theft" }).waitFor()
      await page.locator(".session.compromised").waitFor()
      await button(page, /^Who am I,/).click()
      await shown(page).filter({ hasText: "401" }).waitFor()
    })
  )
})

describe("What happened", () => {
  it.scoped("shows a ting in the inbox of a second tab, live, and announces it", () =>
    visit({}, async ({ context, page, url }) => {
      const other = await context.newPage()
      await other.goto(url)
      await other.getByText("No ting yet.").waitFor()
      await logIn(page)
      await sendTing(page)
      await inbox(other).filter({ hasText: "si:deejay/trigger/1" }).filter({ hasText: "new" }).waitFor()
      await other
        .getByRole("status")
        .filter({ hasText: "A ting arrived: music.trigger.fired" })
        .waitFor({ state: "attached" })
      // The service ships what it records about itself, which the ting did not ask for.
      await page
        .getByRole("list", { name: "Calls of background delivery" })
        .getByText("the service’s own telemetry")
        .first()
        .waitFor()
    })
  )

  it.scoped("shows faults while they are active, and the calls that met them", () =>
    visit({}, async ({ page }) => {
      await logIn(page)
      await page.getByLabel("Upstream").selectOption("ting")
      await page.getByLabel("What happens").selectOption("down")
      await page.getByLabel("How often").selectOption("")
      await button(page, "Add fault").click()
      await page
        .locator(".strip")
        .filter({ hasText: "Ting every call: not reached, until removed" })
        .waitFor()
      await sendTing(page)
      await page.locator(".heads .faulty", { hasText: "Ting" }).waitFor()
      const met = page
        .getByRole("list", { name: "Calls before the answer" })
        .locator(".troubled", { hasText: "not reached" })
      await shown(page).filter({ hasText: /50\d/ }).waitFor()
      expect(await met.count()).toBe(3)
      await lesson(page).filter({ hasText: "Ting could not be reached" }).waitFor()
      await button(page, /^Remove, not reached/).click()
      await page.locator(".strip").waitFor({ state: "detached" })
      await button(page, "Send ting").click()
      await lesson(page).filter({ hasText: "IAM issued a proof" }).waitFor()
    })
  )

  it.scoped("gives curl lines that a shell runs", () =>
    visit({ permissions: ["clipboard-read", "clipboard-write"] }, async ({ page }) => {
      await logIn(page)
      await page.getByLabel("Data (JSON)").first().fill(`{ "it's": "a \\"quote\\", $HOME and \`more\`" }`)
      await sendTing(page)
      await lesson(page).filter({ hasText: "IAM issued a proof" }).waitFor()
      await button(page, "Copy as curl").click()
      const clipboard = async () => String(await page.evaluate("navigator.clipboard.readText()"))
      await expect.poll(clipboard, { timeout: 60_000 }).toMatch(/^curl /)
      const command = await clipboard()
      const { stdout } = await run("sh", ["-c", command])
      expect(stdout).toMatch(/^HTTP\/1\.1 200/)
      // The same bytes under the same key: a replay, not a conflict.
      expect(stdout).toContain('"replayed":true')
    })
  )

  it.scoped("shows hostile text as text", () =>
    visit({}, async ({ page }) => {
      const hostile = '<img src=x onerror="window.intruded=1"></pre><script>window.intruded=1</script>'
      await logIn(page)
      await page.getByLabel(/^Key, after/).fill("<b>bold</b>")
      await page.getByLabel("Data (JSON)").first().fill(JSON.stringify({ hostile }))
      await sendTing(page)
      await inbox(page).filter({ hasText: "si:deejay/<b>bold</b>" }).click()
      await inbox(page).filter({ hasText: "onerror" }).waitFor()
      expect(await inbox(page).locator("bdi").allTextContents()).toContain("si:deejay/<b>bold</b>")
      await page.getByRole("tab", { name: "Report" }).click()
      await page.getByLabel(/^Message/).fill(hostile)
      await button(page, "Send report").click()
      await page
        .getByRole("region", { name: "Issues" })
        .getByRole("listitem")
        .filter({ hasText: "<img src=x" })
        .waitFor()
      expect(
        await page.evaluate(
          '[typeof window.intruded, document.querySelectorAll("img, b, pre script").length]'
        )
      ).toEqual(["undefined", 0])
    })
  )

  it.scoped("reconnects by itself after the stream was cut, and says so", () =>
    visit({ mayFail: true }, async ({ cut, page, restore }) => {
      await logIn(page)
      cut()
      await page.getByText("The sandbox does not answer.").waitFor()
      await page.getByText("Reconnecting…").waitFor()
      await button(page, /^Refresh,/).click()
      await page.locator(".problem", { hasText: "The console does not answer." }).waitFor()
      restore()
      await page.locator(".connection.live").waitFor()
      await button(page, /^Refresh,/).click()
      await lesson(page).filter({ hasText: "new pair" }).waitFor()
      expect(await page.locator("button.record").count()).toBe(3)
    })
  )
})
