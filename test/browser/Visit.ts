/** One page in a browser profile of its own. */
import axe from "axe-core"
import type { Browser, BrowserContextOptions, Page } from "playwright-core"
import { expect } from "vitest"
import { browserPatience } from "./Chromium.ts"

export interface Visit {
  readonly page: Page
  /** Errors of the console, the pages and their requests. */
  readonly complaints: ReadonlyArray<string>
  /** URLs of all requests. */
  readonly asked: ReadonlyArray<string>
  readonly url: string
}

export const openPage = async (
  browser: Browser,
  url: string,
  options: BrowserContextOptions,
  use: (visit: Visit) => Promise<void>
): Promise<void> => {
  const context = await browser.newContext({
    viewport: { width: 1000, height: 700 },
    // Each frame of an animation costs processor time.
    reducedMotion: "reduce",
    ...options
  })
  context.setDefaultTimeout(browserPatience)
  try {
    const complaints: Array<string> = []
    const asked: Array<string> = []
    context.on("console", (message) => complaints.push(message.text()))
    context.on("weberror", (error) => complaints.push(error.error().message))
    context.on("requestfailed", (request) => {
      // A page that is left gives up its requests.
      if (request.failure()?.errorText !== "net::ERR_ABORTED") complaints.push(`failed: ${request.url()}`)
    })
    context.on("request", (request) => asked.push(request.url()))
    const page = await context.newPage()
    await page.goto(url)
    await use({ page, complaints, asked, url })
  } finally {
    await context.close()
  }
}

/** What the schemes differ in: their colours. */
const ofColours = "runOnly: ['color-contrast', 'link-in-text-block'],"

/** The dark colours are those of both widths. */
const looks = [
  { colorScheme: "light", width: 400 },
  { colorScheme: "light", width: 1440 },
  { colorScheme: "dark", width: 1440 }
] as const

/** What breaks a rule of axe or does not fit, light and dark, on a phone and on a desk. `ignored` are ids of rules. */
export const expectAccessible = async (page: Page, ignored: ReadonlyArray<string> = []): Promise<void> => {
  await page.evaluate(axe.source)
  for (const { colorScheme, width } of looks) {
    await page.emulateMedia({ colorScheme })
    // The page follows the scheme, a moment later.
    const isDark = () =>
      page.evaluate('Number(/\\d+/.exec(getComputedStyle(document.querySelector("h1")).color)[0]) > 127')
    await expect.poll(isDark).toBe(colorScheme === "dark")
    await page.setViewportSize({ width, height: 900 })
    const found = await page.evaluate(
      `axe.run(document, { ${colorScheme === "dark" ? ofColours : ""} resultTypes: ['violations'] }).then(({ violations }) => violations.map(({ id, nodes }) => [id, nodes.slice(0, 5).map(({ html }) => html)]))`
    )
    const broken = (found as ReadonlyArray<readonly [string, unknown]>).filter(
      ([id]) => !ignored.includes(id)
    )
    const tooWide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
    expect({ colorScheme, width, broken, tooWide }).toEqual({ colorScheme, width, broken: [], tooWide: 0 })
  }
}
