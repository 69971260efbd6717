/** The last events of a page are sent when it is hidden or left, once. */
import { afterEach, describe, expect, it, vi } from "vitest"
import { startClient } from "../support/RecordingService.ts"
import { waitFor } from "../../support/Waiting.ts"

afterEach(() => vi.unstubAllGlobals())

describe("A page", () => {
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
