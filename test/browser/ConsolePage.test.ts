/** What a person does on the console's page, with the real sandbox behind it. */
import { execFile } from "node:child_process"
import { promisify } from "node:util"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { Effect, LogLevel } from "effect"
import type { BrowserContextOptions, Locator, Page } from "playwright-core"
import { describe, expect } from "vitest"
import { startSandboxWithConsole } from "../../sandbox/RunWithConsole.ts"
import { it } from "../world/Test.ts"
import { browserOfFile } from "./Chromium.ts"
import { expectAccessible, openPage } from "./Visit.ts"

const browser = browserOfFile()

/**
 * A visit to a sandbox of its own, as a first visit with the tour or as a later one. After each visit: no error in the browser, and no
 * request to another origin.
 */
const visit = (
  { tour = false, ...options }: BrowserContextOptions & { readonly tour?: boolean },
  use: (page: Page) => Promise<void>
) =>
  Effect.gen(function* () {
    const { consoleUrl: url } = yield* startSandboxWithConsole({ port: 0, logLevel: LogLevel.None })
    const localStorage = [{ name: "music-sandbox-tour", value: "seen" }]
    const storageState = { cookies: [], origins: [{ origin: url, localStorage }] }
    const profile = { viewport: { width: 1440, height: 900 }, ...(tour ? {} : { storageState }), ...options }
    yield* Effect.promise(() =>
      openPage(browser(), url, profile, async ({ asked, complaints, page }) => {
        await page.getByRole("heading", { name: "Callers" }).waitFor()
        await use(page)
        expect(complaints).toEqual([])
        expect([...new Set(asked.map((address) => new URL(address).origin))]).toEqual([url])
      })
    )
  }).pipe(Effect.provide(NodeFileSystem.layer))

const button = (page: Page, name: string | RegExp): Locator => page.getByRole("button", { name }).first()

/** Presses it. */
const press = (page: Page, name: string | RegExp): Promise<void> => button(page, name).click()

/** Waits for the sentence on what the shown action shows. */
const teaches = (page: Page, text: string): Promise<void> =>
  page.locator(".lesson").filter({ hasText: text }).waitFor()

const arrivals = (page: Page, name: "Inbox" | "Issues" | "Rows"): Locator =>
  page.getByRole("region", { name }).getByRole("listitem")

const logIn = async (page: Page): Promise<void> => {
  await press(page, "Get SLT, for si:deejay")
  await press(page, "Log in, as si:deejay")
  await page.locator(".session.active", { hasText: "si:deejay" }).waitFor()
  // The heading and result of the action that is shown in full.
  await page.locator("#shown-title").filter({ hasText: "200" }).filter({ hasText: "Log in" }).waitFor()
}

const sendReport = async (page: Page): Promise<void> => {
  await page.getByRole("tab", { name: "Report" }).click()
  await press(page, "Send report")
}

/** Presses Tab until the focus is on what has the name, and then the key. */
const tabTo = async (page: Page, name: RegExp, key = "Enter") => {
  for (let count = 0; count < 120; count += 1) {
    await page.keyboard.press("Tab")
    const text = '(document.activeElement.ariaLabel ?? document.activeElement.textContent ?? "").trim()'
    if (name.test(String(await page.evaluate(text)))) return page.keyboard.press(key)
  }
  throw new Error(`Tab does not reach ${name}`)
}

describe("The page", () => {
  it.scoped("leads from the first key to a repeated ting without a mouse", () =>
    visit({}, async (page) => {
      await tabTo(page, /^To the controls$/)
      await tabTo(page, /^Get SLT, for si:deejay/)
      await button(page, /^Log in, as si:deejay/).waitFor()
      await tabTo(page, /^Log in, as si:deejay/)
      await page.locator(".session").waitFor()
      // The button is gone with its token; the focus stays beside it.
      await page.waitForFunction('document.activeElement.ariaLabel === "Get SLT, for si:deejay"')
      await tabTo(page, /^Send ting$/, "Space")
      await arrivals(page, "Inbox").waitFor()
      // The ting arrives before its answer is shown.
      await teaches(page, "IAM issued a proof")
      await tabTo(page, /^Send again$/)
      await teaches(page, "Nothing is done twice")
      await press(page, /^Help/)
      await page.getByRole("dialog", { name: "Help" }).waitFor()
      await expectAccessible(page)
      await page.keyboard.press("Escape")
      await page.getByRole("dialog").waitFor({ state: "detached" })
    })
  )

  it.scoped("gives curl lines that a shell runs", () =>
    visit({ permissions: ["clipboard-read", "clipboard-write"] }, async (page) => {
      await logIn(page)
      await page.getByLabel("Data (JSON)").first().fill(`{ "it's": "a \\"quote\\", $HOME and \`more\`" }`)
      await press(page, "Send ting")
      await teaches(page, "IAM issued a proof")
      await press(page, "Copy as curl")
      const clipboard = async () => String(await page.evaluate("navigator.clipboard.readText()"))
      await expect.poll(clipboard, { timeout: 60_000 }).toMatch(/^curl /)
      const { stdout } = await promisify(execFile)("sh", ["-c", await clipboard()])
      // The same bytes under the same key: a replay, not a conflict.
      expect(stdout).toContain('"replayed":true')
    })
  )

  it.scoped("teaches what happened, also where it is unusual", () =>
    visit({}, async (page) => {
      await page.getByLabel("Upstream").selectOption("ting")
      await page.getByLabel("What happens").selectOption("down")
      await page.getByLabel("How often").selectOption("until removed")
      await press(page, "Add fault")
      await logIn(page)
      await teaches(page, "its answer says what is missing")
      const docs = await page.getByRole("link", { name: /^API docs/ }).getAttribute("href")
      await fetch(String(docs).replace("/docs", "/nowhere"))
      await teaches(page, "There is no such path")
    })
  )

  it.scoped("does not call a sandbox live that keeps its connections and says nothing", () =>
    visit({}, async (page) => {
      const [live, silent] = [page.locator(".connection.live"), page.getByText("It is stopped or busy")]
      const show = (isShown: boolean) =>
        page.evaluate(
          `Object.defineProperty(document, "hidden", { value: ${!isShown}, configurable: true }); document.dispatchEvent(new Event("visibilitychange"))`
        )
      await page.clock.install()
      await logIn(page)
      // A hidden tab leaves its connection to the others: a browser has six.
      const left = page.waitForEvent("requestfailed", (request) => request.url().endsWith("/events"))
      await show(false)
      await left
      await page.route("**/events", () => undefined)
      await show(true)
      await page.clock.fastForward(13_000)
      // Sooner than by the page's timers of before.
      await silent.waitFor({ timeout: 5_000 })
      await show(false)
      await page.unroute("**/events")
      await show(true)
      await live.waitFor()
      await page.clock.fastForward(13_000)
      await silent.waitFor()
    })
  )

  it.scoped("shows hostile text as text", () =>
    visit({}, async (page) => {
      const hostile = '<img src=x onerror="window.intruded=1"></pre><script>window.intruded=1</script>'
      await logIn(page)
      await page.getByLabel(/^Key, after/).fill("<b>bold</b>")
      await page.getByLabel("Data (JSON)").first().fill(JSON.stringify({ hostile }))
      await press(page, "Send ting")
      const ting = arrivals(page, "Inbox").filter({ hasText: "si:deejay/<b>bold</b>" })
      await ting.click()
      await ting.filter({ hasText: "onerror" }).waitFor()
      await page.getByRole("tab", { name: "Report" }).click()
      await page.getByLabel(/^Message/).fill(hostile)
      await press(page, "Send report")
      await arrivals(page, "Issues").filter({ hasText: "<img src=x" }).waitFor()
      // Marks of direction are shown, and mirror nothing.
      await page.getByLabel(/^Message/).fill("Playback \u202estops after a seek.")
      await press(page, "Send report")
      await page.locator(".exchange", { hasText: "⟨U+202E⟩" }).waitFor()
      const intruders = '[typeof window.intruded, document.querySelectorAll("img, b, pre script").length]'
      expect(await page.evaluate(intruders)).toEqual(["undefined", 0])
    })
  )
})

it.scoped("The tour leads through six real steps, on an accessible page that fits", () =>
  visit({ tour: true }, async (page) => {
    const tour = page.getByRole("complementary", { name: "Guided tour" })
    const finish = async (next = "Next step") => {
      await tour.locator("h2 .badge").waitFor()
      await tour.getByRole("button", { name: next }).click()
    }
    const titleIs = (text: string) => tour.getByRole("heading", { name: text }).waitFor()
    await expectAccessible(page)
    await page.setViewportSize({ width: 1440, height: 900 })
    await tour.getByRole("button", { name: "Skip step" }).dblclick()
    await titleIs("2 of 6")
    await tour.getByRole("button", { name: "Back" }).click()
    await titleIs("1 of 6")
    await logIn(page)
    await finish()
    await press(page, "Send ting")
    await finish()
    await arrivals(page, "Inbox").waitFor()
    await press(page, "Send again")
    await finish()
    expect(await arrivals(page, "Inbox").count()).toBe(1)
    await press(page, "Add fault")
    await page.getByText("Faults are active.").waitFor()
    await press(page, /^Refresh,/)
    await finish()
    await press(page, /^Reuse spent,/)
    await page.locator(".session.compromised").waitFor()
    await expectAccessible(page)
    await page.setViewportSize({ width: 1440, height: 900 })
    await finish()
    // A report of a testing plane is never filed.
    await page.getByRole("radio", { name: /^Testing/ }).check({ force: true })
    await logIn(page)
    await sendReport(page)
    await teaches(page, "never filed")
    await tour.getByRole("status").filter({ hasText: "never filed" }).waitFor()
    await page.getByRole("radio", { name: "Production" }).check({ force: true })
    await press(page, "Send report")
    await finish("Finish")
    await arrivals(page, "Issues").waitFor()
    await page.reload()
    await button(page, "Tour").waitFor()
    expect(await tour.count()).toBe(0)
  })
)
