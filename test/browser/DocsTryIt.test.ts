/** The documentation page as a sandbox serves it: each call can be sent. */
import { afterAll, beforeAll, describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import axe from "axe-core"
import * as Effect from "effect/Effect"
import type { Browser, BrowserContextOptions, Locator, Page } from "playwright-core"
import { callsOf, freshDocument } from "../http/Documented.ts"
import { startTestSandboxWithConsole } from "../world/Sandbox.ts"
import { launchChromium } from "./Chromium.ts"
import { openPage, type Visit } from "./Visit.ts"

const calls = callsOf(freshDocument())

let browser: Browser
beforeAll(async () => {
  browser = await launchChromium()
})
afterAll(() => browser?.close())

interface Trial extends Visit {
  readonly base: string
  readonly consoleOrigin: string
}

const tryIt = (options: BrowserContextOptions, use: (trial: Trial) => Promise<void>) =>
  Effect.gen(function* () {
    const { base, consoleUrl } = yield* startTestSandboxWithConsole
    yield* Effect.promise(() =>
      openPage(browser, `${base}/docs`, "", options, (visit) =>
        use({ ...visit, base, consoleOrigin: consoleUrl })
      )
    )
  })

const bar = (page: Page): Locator => page.getByRole("form", { name: "Session of the sandbox" })
const section = (page: Page, call: string): Locator => page.locator(`section[id="${call}"]`)
const field = (page: Page, call: string, name: string): Locator => page.locator(`[id="try-${call}-${name}"]`)
const button = (page: Page, call: string, name: string): Locator =>
  section(page, call).getByRole("button", { name, exact: true })
const status = (page: Page, call: string): Locator => section(page, call).locator(".outcome")

/** Opens the form of a call, and waits until it is filled in. */
const open = async (page: Page, call: string): Promise<void> => {
  await section(page, call).locator(".try > summary").click()
  await button(page, call, "Send").waitFor()
  const required = ["body", "Idempotency-Key", "Authorization", "X-Silicon-IAM-Signature"]
  for (const name of required) {
    const input = field(page, call, name)
    if ((await input.count()) > 0)
      await expect.poll(() => input.inputValue(), { timeout: 60_000 }).not.toBe("")
  }
}

/** Sends by a button, and returns the status line. */
const send = async (page: Page, call: string, name = "Send"): Promise<string> => {
  await button(page, call, name).click()
  return answered(page, call)
}

const answered = async (page: Page, call: string): Promise<string> => {
  await expect.poll(() => status(page, call).textContent(), { timeout: 60_000 }).toMatch(/^\d{3} |No answer/)
  return (await status(page, call).textContent()) ?? ""
}

const select = async (page: Page, plane: string, actor: string): Promise<void> => {
  await bar(page).getByLabel("Plane").selectOption({ label: plane })
  await bar(page).getByLabel("Actor").selectOption({ label: actor })
}

describe("Try it", () => {
  it.scopedLive.each([
    ["Production", "si:deejay"],
    ["Testing: music e2e", "c:ana"]
  ] as const)(
    "sends every call with the values that it fills in, in %s",
    ([plane, actor]) =>
      tryIt({}, async ({ asked, base, complaints, consoleOrigin, page }) => {
        await select(page, plane, actor)
        for (const { operationId, responses } of calls) {
          await open(page, operationId)
          const documented = Object.keys(responses).find((code) => Number(code) < 400) ?? ""
          const line = await send(page, operationId)
          expect([operationId, line]).toEqual([operationId, expect.stringMatching(`^${documented} `)])
          const hasBody = responses[documented]?.content !== undefined
          expect([operationId, await section(page, operationId).locator(".answer .empty").count()]).toEqual([
            operationId,
            hasBody ? 0 : 1
          ])
        }
        expect(complaints).toEqual([])
        const origins = new Set(
          asked.filter((url) => !url.startsWith("data:")).map((url) => new URL(url).origin)
        )
        expect([...origins].sort()).toEqual([base, consoleOrigin].sort())
      }),
    120_000
  )

  it.scopedLive("sends the same key again, and a new one for a new request", () =>
    tryIt({}, async ({ page }) => {
      await open(page, "reports.submit")
      const key = field(page, "reports.submit", "Idempotency-Key")
      const first = await key.inputValue()
      expect(await send(page, "reports.submit")).not.toContain("replay")
      expect(await send(page, "reports.submit", "Send again")).toContain("replay")
      expect(await key.inputValue()).toBe(first)
      await field(page, "reports.submit", "body").fill('{"message":"Another one."}')
      const second = await key.inputValue()
      expect(second).not.toBe(first)
      expect(await send(page, "reports.submit", "Send again")).toMatch(/^200 OK in \d+ ms$/)
      await button(page, "reports.submit", "New key").click()
      expect([first, second]).not.toContain(await key.inputValue())
      await button(page, "reports.submit", "Start over").click()
      await expect
        .poll(() => field(page, "reports.submit", "body").inputValue())
        .toContain("Playback stops after a seek")
    })
  )

  it.scopedLive("the session of the bar follows a refresh, a logout and a login", () =>
    tryIt({}, async ({ page }) => {
      const state = bar(page).getByRole("status")
      const token = field(page, "auth.me", "Authorization")
      expect(await state.textContent()).toBe("No session.")
      await open(page, "auth.me")
      expect(await state.textContent()).toBe("si:deejay in acme, Production")
      const before = await token.inputValue()

      await open(page, "auth.refresh")
      await send(page, "auth.refresh")
      await expect.poll(() => token.inputValue()).not.toBe(before)
      expect(await send(page, "auth.me")).toMatch(/^200 /)

      await open(page, "auth.logout")
      expect(await send(page, "auth.logout")).toMatch(/^204 /)
      expect(await state.textContent()).toBe("No session.")
      expect(await token.inputValue()).toBe("")
      expect(await send(page, "auth.me", "Send again")).toMatch(/^401 .*: unauthenticated$/)
      await section(page, "auth.me").locator('.advice a[href="#error-unauthenticated"]').click()
      expect(await page.evaluate("document.querySelector(':target').id")).toBe("error-unauthenticated")

      await button(page, "auth.me", "Get a session").click()
      await expect.poll(() => token.inputValue()).toMatch(/^Bearer oat_/)
      expect(await send(page, "auth.me", "Send again")).toMatch(/^200 /)

      await select(page, "Production", "si:lyra")
      await open(page, "auth.login")
      await send(page, "auth.login")
      expect(await state.textContent()).toMatch(/^si:lyra in acme/)
      expect(await send(page, "auth.me", "Send again")).toMatch(/^200 /)
    })
  )

  it.scopedLive("sends nothing that is no JSON or no header, and says what is wrong", () =>
    tryIt({}, async ({ asked, page }) => {
      await open(page, "telemetry.accept")
      await section(page, "telemetry.accept").locator(".fields > details > summary").click()
      const before = asked.length
      const focused = () => page.evaluate("document.activeElement.id")
      for (const [name, value, problem] of [
        ["body", '{"table":', /^This is not JSON/],
        ["X-Request-Id", "жук", /^A header cannot hold/]
      ] as const) {
        const input = field(page, "telemetry.accept", name)
        const good = await input.inputValue()
        await input.fill(value)
        await button(page, "telemetry.accept", "Send").click()
        expect(await focused()).toBe(`try-telemetry.accept-${name}`)
        expect(await page.locator(`[id="try-telemetry.accept-${name}-mistake"]`).textContent()).toMatch(
          problem
        )
        expect(await input.getAttribute("aria-invalid")).toBe("true")
        await input.fill(good)
      }
      expect(asked.length).toBe(before)
      expect(await send(page, "telemetry.accept")).toMatch(/^204 /)
    })
  )

  it.scopedLive("works by keyboard alone, and shows the call as curl", () =>
    tryIt({}, async ({ base, page }) => {
      const tab = async (until: string) => {
        for (let count = 0; count < 40; count += 1) {
          if (
            (await page.evaluate("document.activeElement.id || document.activeElement.textContent")) === until
          )
            return
          await page.keyboard.press("Tab")
        }
      }
      await section(page, "tings.send").locator(".anchor").focus()
      await tab("Try it")
      await page.keyboard.press("Enter")
      const body = field(page, "tings.send", "body")
      await expect
        .poll(async () => ((await body.count()) === 0 ? "" : body.inputValue()), { timeout: 60_000 })
        .not.toBe("")
      await tab("try-tings.send-body")
      await page.keyboard.press("Control+Enter")
      expect(await answered(page, "tings.send")).toMatch(/^200 OK/)
      expect(await page.evaluate("document.activeElement.id")).toBe("try-tings.send-body")
      expect(await status(page, "tings.send").getAttribute("role")).toBe("status")
      await tab("The same call as curl")
      await page.keyboard.press("Enter")
      const curl = section(page, "tings.send").locator(".answer details[open] pre")
      const token = await field(page, "tings.send", "Authorization").inputValue()
      expect(await curl.textContent()).toBe(
        [
          `curl -X POST '${base}/api/v1/tings'`,
          `-H 'Authorization: ${token}'`,
          "-H 'Content-Type: application/json'",
          "-H 'X-Org-ID: acme'",
          `-d '${await body.inputValue()}'`
        ].join(" \\\n  ")
      )
    })
  )

  it.scopedLive("shows hostile, plain and empty answers as text", () =>
    tryIt({}, async ({ complaints, page }) => {
      const hostile = '<img src=x onerror="intruded=1"><script>intruded=1</script>'
      await open(page, "descriptors.version")
      const answers = [
        {
          status: 418,
          contentType: "application/json",
          body: JSON.stringify({ error: { code: `x"><b>${hostile}`, message: hostile, hint: hostile } })
        },
        { status: 200, contentType: "text/html", body: hostile },
        { status: 200, contentType: "text/plain", body: "" }
      ]
      await page.route("**/api/v1/version", (route) =>
        route.fulfill({ headers: { "x-hostile": hostile }, ...answers.shift() })
      )
      const answer = section(page, "descriptors.version").locator(".answer")
      for (const name of ["Send", "Send again"]) {
        await send(page, "descriptors.version", name)
        expect(await answer.textContent()).toContain(hostile)
        expect(await section(page, "descriptors.version").locator("img, script, b").count()).toBe(0)
      }
      await send(page, "descriptors.version", "Send again")
      expect(await answer.textContent()).toContain("No body.")
      expect(await page.evaluate("typeof intruded")).toBe("undefined")
      expect(complaints.filter((line) => !line.includes("418"))).toEqual([])
    })
  )

  it.scopedLive("says what to do when the service or the console does not answer", () =>
    tryIt({}, async ({ consoleOrigin, page }) => {
      await open(page, "descriptors.iam")
      await page.route("**/api/v1/iam", (route) => route.abort("connectionrefused"))
      expect(await send(page, "descriptors.iam")).toMatch(/^No answer: .*still running/)

      await page.route(`${consoleOrigin}/slt`, (route) =>
        route.fulfill({
          status: 400,
          headers: { "access-control-allow-origin": "*", "access-control-allow-headers": "*" },
          json: { message: "Refused.", hint: "Wait for the test." }
        })
      )
      await section(page, "auth.login").locator(".try > summary").click()
      await expect
        .poll(() => section(page, "auth.login").locator(".note").textContent(), { timeout: 60_000 })
        .toBe("Refused. Wait for the test.")

      await page.route(`${consoleOrigin}/actors`, (route) => route.abort("connectionrefused"))
      await page.reload()
      const alert = page.getByRole("alert")
      await alert.getByText(`The sandbox's console at ${consoleOrigin} does not answer.`).waitFor()
      await page.unroute(`${consoleOrigin}/actors`)
      await alert.getByRole("button", { name: "Try again" }).click()
      await bar(page).waitFor()
    })
  )

  it.scopedLive.each([["light"], ["dark"]] as const)(
    "is accessible and fits a narrow screen: %s",
    ([colorScheme]) =>
      tryIt({ colorScheme, viewport: { width: 400, height: 900 } }, async ({ page }) => {
        for (const id of ["auth.login", "webhooks.receive"]) {
          await open(page, id)
          await send(page, id)
          await section(page, id).locator(".answer").getByText("The same call as curl").click()
        }
        expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBe(0)
        const top = async (locator: Locator) => (await locator.boundingBox())?.y ?? Number.NaN
        expect(await top(bar(page))).toBeLessThan(await top(page.getByRole("navigation")))
        await page.evaluate(axe.source)
        const violations = await page.evaluate(
          "axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations.map(({ id, nodes }) => id + ' ' + nodes.map(({ html }) => html)))"
        )
        expect(violations).toEqual([])
      })
  )
})
