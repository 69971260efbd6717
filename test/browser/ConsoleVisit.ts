/** A visit to the console of a sandbox of its own, in Chromium, with what went wrong on the way. */
import type { Socket } from "node:net"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as LogLevel from "effect/LogLevel"
import type { Browser, BrowserContextOptions, Locator, Page } from "playwright-core"
import { type LoopbackServer, listenOnLoopback } from "../../sandbox/console/LoopbackServer.ts"
import { startSandboxWithConsole } from "../../sandbox/RunWithConsole.ts"
import { openPage, type Visit } from "./Visit.ts"

interface ConsoleVisit extends Visit {
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

interface VisitOptions extends BrowserContextOptions {
  /** The tour of the first visit. */
  readonly tour?: boolean
  /** The test provokes failed requests, and the browser complains of them. */
  readonly mayFail?: boolean
}

/** What a browser remembers that has seen the tour. */
const seen = (origin: string) => ({
  cookies: [],
  origins: [{ origin, localStorage: [{ name: "music-sandbox-tour", value: "seen" }] }]
})

/** After each visit: no error in the browser, and no request to another origin. */
export const visitWith =
  (browser: () => Browser) => (options: VisitOptions, use: (visit: ConsoleVisit) => Promise<void>) =>
    Effect.gen(function* () {
      const { url, ...control } = yield* startConsole
      const { mayFail = false, tour = false, ...rest } = options
      const profile = {
        viewport: { width: 1440, height: 900 },
        ...(tour ? {} : { storageState: seen(url) }),
        ...rest
      }
      yield* Effect.promise(() =>
        openPage(browser(), url, "", profile, async (visit) => {
          await visit.page.getByRole("heading", { name: "Callers" }).waitFor()
          await use({ ...visit, ...control })
          if (!mayFail) expect(visit.complaints).toEqual([])
          expect([...new Set(visit.asked.map((address) => new URL(address).origin))]).toEqual([url])
        })
      )
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

export const sendTing = async (page: Page): Promise<void> => {
  await button(page, "Send ting").click()
  await shown(page).filter({ hasText: "ting" }).waitFor()
}

export const inbox = (page: Page): Locator =>
  page.getByRole("region", { name: "Inbox" }).getByRole("listitem")
