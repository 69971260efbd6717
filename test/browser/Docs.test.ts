/** The documentation page, as the service and as a sandbox serve it. */
import { Effect } from "effect"
import type { Locator, Page } from "playwright-core"
import { expect } from "vitest"
import { documentedCalls as calls } from "../world/Contract.ts"
import { backend } from "../http/support.ts"
import { startTestSandboxWithConsole } from "../world/Sandbox.ts"
import { it } from "../world/Test.ts"
import { browserOfFile } from "./Chromium.ts"
import { expectAccessible, openPage, type Visit } from "./Visit.ts"

const browser = browserOfFile()

// Not by role: each search for one would compute the names of all elements of this large page.
const testButtons = (page: Page): Locator => page.locator("button", { hasText: "Test Request" })

const visit = (base: string, use: (visit: Visit) => Promise<void>) =>
  Effect.promise(() =>
    openPage(browser(), `${base}/docs`, {}, async (visit) => {
      await expect.poll(() => testButtons(visit.page).count(), { timeout: 60_000 }).toBe(calls.length)
      await use(visit)
    })
  )

/** The library tells the console how long its steps take. */
const wrong = (complaints: ReadonlyArray<string>): ReadonlyArray<string> =>
  complaints.filter((line) => !/^(?:@scalar\/|\[CLIENT\]: Client element|\w+: \d+ ms$)/.test(line))

/** Faults in the markup of the library's version; none is in our texts or colours. */
const ofLibrary = [
  "aria-allowed-attr",
  "aria-allowed-role",
  "aria-required-children",
  "button-name",
  "landmark-unique",
  "list",
  "listitem",
  "scrollable-region-focusable"
]

it.scoped("The page of the API keeps its policy, asks for nothing else, and is accessible", () =>
  Effect.flatMap(backend(), ({ port }) =>
    visit(`http://127.0.0.1:${port}`, async ({ asked, complaints, page, url }) => {
      expect(await page.title()).toBe("Music backend")
      for (const name of ["Install the client", "Idempotency keys", "Planes", "Limits and 429", "Errors"])
        expect(await page.getByRole("heading", { name, exact: true }).count()).toBe(1)
      // The samples of the first call: Scalar's own, and that of the document.
      await page.getByRole("button", { name: "Shell Curl" }).first().click()
      await page.getByRole("option", { name: "music-client" }).click()
      await page.getByText("await client.login(").waitFor()
      expect(wrong(complaints)).toEqual([])
      await expectAccessible(page, ofLibrary)
      expect(asked.filter((address) => !/^(?:data|blob):/.test(address))).toEqual([url])
      // It runs no other script and sends nothing to another host.
      await page.evaluate(`(() => {
        const script = document.createElement("script")
        script.textContent = "window.intruded = true"
        document.head.append(script)
      })()`)
      expect(await page.evaluate("typeof window.intruded")).toBe("undefined")
      const before = asked.length
      const elsewhere = 'fetch("http://127.0.0.1:1/").then(() => "sent", (error) => error.name)'
      expect(await page.evaluate(elsewhere)).toBe("TypeError")
      expect(asked.length).toBe(before)
      expect(complaints.join("\n")).toMatch(/Content Security Policy/)
    })
  )
)

it.scopedLive(
  "The page of a sandbox sends each call with the values that it fills in",
  () =>
    Effect.flatMap(startTestSandboxWithConsole, ({ base }) =>
      visit(base, async ({ asked, complaints, page }) => {
        const statuses: Record<string, number> = {}
        for (let index = 0; index < calls.length; index += 1) {
          const test = testButtons(page).nth(index)
          // Method and path.
          const [, name = ""] = /\((\w+ .*)\)/.exec((await test.textContent()) ?? "") ?? []
          await test.click()
          const [response] = await Promise.all([
            page.waitForResponse((answer) => !answer.url().endsWith("/docs")),
            page.locator("button", { hasText: /request to http/ }).click()
          ])
          statuses[name] = response.status()
          await page.keyboard.press("Escape")
        }
        const successOf = ({ responses }: (typeof calls)[number]) =>
          Number(Object.keys(responses).find((status) => Number(status) < 400))
        expect(statuses).toEqual(
          Object.fromEntries(
            calls.map((call) => [`${call.method.toLowerCase()} ${call.path}`, successOf(call)])
          )
        )
        expect(wrong(complaints)).toEqual([])
        expect([
          ...new Set(asked.filter((url) => url.startsWith("http")).map((url) => new URL(url).origin))
        ]).toEqual([base])
      })
    ),
  180_000
)
