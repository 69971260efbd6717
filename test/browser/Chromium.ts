/** A Chromium for tests: without a sandbox, so that it runs as root too, and without any traffic of its own. */
import { existsSync } from "node:fs"
import { type Browser, chromium } from "playwright-core"
import { afterAll, beforeAll, expect } from "vitest"

const places = [
  process.env.CHROMIUM,
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
]

/** Milliseconds for a start, and for each wait in a page: enough for a slow machine. */
export const browserPatience = 120_000

/** Starts a new profile each time; the caller closes it. Without a Chromium it fails with an instruction. */
export const launchChromium = async (more: ReadonlyArray<string> = []): Promise<Browser> => {
  const executablePath = places.find((place) => place !== undefined && existsSync(place))
  if (executablePath === undefined)
    throw new Error(
      "No Chromium was found: install one (apt-get install -y chromium), or name it in the variable CHROMIUM."
    )
  return chromium.launch({
    executablePath,
    headless: true,
    timeout: browserPatience,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      ...more
    ]
  })
}

/** One for the tests of a file. */
export const browserOfFile = () => {
  let browser: Browser | undefined
  beforeAll(async () => {
    browser = await launchChromium()
  })
  afterAll(() => browser?.close())
  return () => browser ?? expect.unreachable()
}
