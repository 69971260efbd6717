/** A visit to the console of a sandbox of its own, in Chromium, with what went wrong on the way. */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as Effect from "effect/Effect"
import * as LogLevel from "effect/LogLevel"
import type { Browser, BrowserContextOptions, Locator, Page } from "playwright-core"
import { expect } from "vitest"
import { startSandboxWithConsole } from "../../sandbox/RunWithConsole.ts"
import { openPage, type Visit } from "./Visit.ts"

interface VisitOptions extends BrowserContextOptions {
  /** The tour of the first visit. */
  readonly tour?: boolean
}

/** After each visit: no error in the browser, and no request to another origin. */
export const visitWith =
  (browser: () => Browser) => (options: VisitOptions, use: (visit: Visit) => Promise<void>) =>
    Effect.gen(function* () {
      const { consoleUrl: url } = yield* startSandboxWithConsole({ port: 0, logLevel: LogLevel.None })
      const { tour = false, ...rest } = options
      const localStorage = [{ name: "music-sandbox-tour", value: "seen" }]
      const storageState = { cookies: [], origins: [{ origin: url, localStorage }] }
      const profile = { viewport: { width: 1440, height: 900 }, ...(tour ? {} : { storageState }), ...rest }
      yield* Effect.promise(() =>
        openPage(browser(), url, profile, async (visit) => {
          await visit.page.getByRole("heading", { name: "Callers" }).waitFor()
          await use(visit)
          expect(visit.complaints).toEqual([])
          expect([...new Set(visit.asked.map((address) => new URL(address).origin))]).toEqual([url])
        })
      )
    }).pipe(Effect.provide(NodeFileSystem.layer))

export const button = (page: Page, name: string | RegExp): Locator =>
  page.getByRole("button", { name }).first()

/** Presses it. */
export const press = (page: Page, name: string | RegExp): Promise<void> => button(page, name).click()

/** The heading and result of the action that is shown in full. */
export const shown = (page: Page): Locator => page.locator("#shown-title")

/** Waits for the sentence on what the shown action shows. */
export const teaches = (page: Page, text: string): Promise<void> =>
  page.locator(".lesson").filter({ hasText: text }).waitFor()

export const arrivals = (page: Page, name: "Inbox" | "Issues" | "Rows"): Locator =>
  page.getByRole("region", { name }).getByRole("listitem")

export const logIn = async (page: Page): Promise<void> => {
  await press(page, "Get SLT, for si:deejay")
  await press(page, "Log in, as si:deejay")
  await page.locator(".session.active", { hasText: "si:deejay" }).waitFor()
  await shown(page).filter({ hasText: "200" }).filter({ hasText: "Log in" }).waitFor()
}

export const sendReport = async (page: Page): Promise<void> => {
  await page.getByRole("tab", { name: "Report" }).click()
  await press(page, "Send report")
}
