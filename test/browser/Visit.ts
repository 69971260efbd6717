/** One page in a browser profile of its own. */
import type { Browser, BrowserContextOptions, Page } from "playwright-core"
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
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options })
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
