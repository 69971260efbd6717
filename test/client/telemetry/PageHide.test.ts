/** The last events of a page are sent when it is hidden or left, once. */
import { afterEach, describe, expect, it, vi } from "vitest"
import { startClient } from "../support/RecordingService.ts"
import { waitFor } from "../../support/Waiting.ts"

afterEach(() => vi.unstubAllGlobals())

describe("A page", () => {
  it("sends no more at its end than browsers allow, in requests that outlive it", async () => {
    const document = Object.assign(new EventTarget(), { visibilityState: "hidden" })
    vi.stubGlobal("document", document)
    const sent: Array<readonly [number, boolean | undefined]> = []
    const { client } = startClient({
      telemetry: true,
      source: "web",
      fetch: async (_, init) => {
        sent.push([String(init?.body).length, init?.keepalive])
        return new Response(null, { status: 204 })
      }
    })
    for (let count = 0; count < 39; count += 1)
      client.telemetry.record("musicfrontendevents", { type: "x".repeat(800) })
    for (let count = 0; count < 39; count += 1)
      client.telemetry.record("musicfrontendanalytics", { type: "x".repeat(800) })
    document.dispatchEvent(new Event("visibilitychange"))
    await waitFor(() => expect(sent.length).toBeGreaterThan(1))
    const last = sent.filter(([, keepalive]) => keepalive)
    const bytes = last.reduce((sum, [length]) => sum + length, 0)
    expect(bytes).toBeGreaterThan(55_000)
    expect(bytes).toBeLessThanOrEqual(60_000)
  })

  it("sends its events when it is hidden, and not a second time when it is left at that moment", async () => {
    const page = new EventTarget()
    const document = Object.assign(new EventTarget(), { visibilityState: "visible" })
    vi.stubGlobal("document", document)
    vi.stubGlobal("addEventListener", page.addEventListener.bind(page))
    vi.stubGlobal("removeEventListener", page.removeEventListener.bind(page))
    const { calls, client } = startClient({ telemetry: true, source: "web" })
    client.telemetry.record("musicfrontendevents", { type: "page.opened" })
    document.dispatchEvent(new Event("visibilitychange"))
    expect(calls).toEqual([])
    document.visibilityState = "hidden"
    document.dispatchEvent(new Event("visibilitychange"))
    page.dispatchEvent(new Event("pagehide"))
    await waitFor(() => expect(client.telemetry.stats()).toMatchObject({ delivered: 1, queued: 0 }))
    expect(calls).toEqual(["telemetry"])
    await client.close()
    client.telemetry.record("musicfrontendevents", { type: "page.opened" })
    page.dispatchEvent(new Event("pagehide"))
    expect(calls).toEqual(["telemetry"])
  })
})
