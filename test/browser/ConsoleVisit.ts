/** A visit to the console of a sandbox of its own, in Chromium, with what went wrong on the way. */
import type { Socket } from "node:net"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as LogLevel from "effect/LogLevel"
import type { Browser, BrowserContext, BrowserContextOptions, Locator, Page } from "playwright-core"
import { type LoopbackServer, listenOnLoopback } from "../../sandbox/console/LoopbackServer.ts"
import { startSandboxWithConsole } from "../../sandbox/RunWithConsole.ts"
import { browserPatience } from "./Chromium.ts"

export interface Visit {
  readonly page: Page
  readonly context: BrowserContext
  readonly url: string
  /** Ends all connections, and refuses new ones until `restore`. */
  readonly cut: () => void
  readonly restore: () => void
}

/** The console's socket, which a test can cut. */
const severable = (listener: LoopbackServer) => {
  const sockets = new Set<Socket>()
  let isCut = false
  const wrapped: LoopbackServer = {
    url: listener.url,
    answerWith: (handler) =>
      listener.answerWith((request, response) => {
        sockets.add(request.socket)
        if (!isCut) return handler(request, response)
        return Effect.sync(() => request.socket.destroy())
      })
  }
  return {
    wrapped,
    cut: () => {
      isCut = true
      for (const socket of sockets) socket.destroy()
    },
    restore: () => {
      isCut = false
    }
  }
}

const startConsole = Effect.gen(function* () {
  const { wrapped, ...control } = severable(yield* listenOnLoopback)
  const { consoleUrl } = yield* startSandboxWithConsole({
    port: 0,
    logLevel: LogLevel.None,
    listen: Effect.succeed(wrapped)
  })
  return { url: consoleUrl, ...control }
}).pipe(Effect.provide(NodeFileSystem.layer))

export interface VisitOptions extends BrowserContextOptions {
  /** The tour of the first visit. */
  readonly tour?: boolean
  /** The test provokes failed requests, and the browser complains of them. */
  readonly mayFail?: boolean
}

/** After each visit: no error in the browser, and no request to another origin. */
export const visitWith =
  (browser: () => Browser) => (options: VisitOptions, use: (visit: Visit) => Promise<void>) =>
    Effect.gen(function* () {
      const { url, ...control } = yield* startConsole
      yield* Effect.promise(async () => {
        const { mayFail = false, tour = false, ...rest } = options
        const context = await browser().newContext({ viewport: { width: 1440, height: 900 }, ...rest })
        context.setDefaultTimeout(browserPatience)
        const complaints: Array<string> = []
        const origins = new Set<string>()
        context.on("console", (message) => complaints.push(message.text()))
        context.on("weberror", (error) => complaints.push(error.error().message))
        context.on("request", (request) => origins.add(new URL(request.url()).origin))
        try {
          if (!tour)
            await context.addInitScript(
              // Before its first page a tab has no origin and no storage.
              'if (origin !== "null") localStorage.setItem("music-sandbox-tour", "seen")'
            )
          const page = await context.newPage()
          await page.goto(url)
          await page.getByRole("heading", { name: "Callers" }).waitFor()
          await use({ page, context, url, ...control })
          if (!mayFail) expect(complaints).toEqual([])
          expect([...origins]).toEqual([url])
        } finally {
          await context.close()
        }
      })
    })

export const button = (page: Page, name: string | RegExp): Locator =>
  page.getByRole("button", { name }).first()

/** The heading and result of the action that is shown in full. */
export const shown = (page: Page): Locator => page.locator("#shown-title")

/** The sentence on what the shown action shows. */
export const lesson = (page: Page): Locator => page.locator(".lesson")

export const logIn = async (page: Page, actor = "si:deejay"): Promise<void> => {
  await button(page, `Get SLT, for ${actor}`).click()
  await button(page, `Log in, as ${actor}`).click()
  await page.locator(".session.active", { hasText: actor }).waitFor()
  await shown(page).filter({ hasText: "200" }).filter({ hasText: "Log in" }).waitFor()
}
