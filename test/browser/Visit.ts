/** One page in a browser profile of its own. */
import type { Browser, BrowserContextOptions, Page } from "playwright-core"
import { browserPatience } from "./Chromium.ts"

export interface Visit {
  readonly page: Page
  /** Errors of the console, the page and its requests. */
  readonly complaints: ReadonlyArray<string>
  /** URLs of all requests. */
  readonly asked: ReadonlyArray<string>
  readonly url: string
}

export const openPage = async (
  browser: Browser,
  url: string,
  hash: string,
  options: BrowserContextOptions,
  use: (visit: Visit) => Promise<void>
): Promise<void> => {
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
}
