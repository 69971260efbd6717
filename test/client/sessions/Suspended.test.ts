/** A program that was suspended while another one broke its lock: the other one's session stays. */
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { memorySessionStore, type SessionLock, type SessionStore } from "../../../client/index.ts"
import { fileSessionStore } from "../../../client/node.ts"
import { type Built, scratch } from "../support/Built.ts"
import { life, recordingService, startClient } from "../support/RecordingService.ts"

/** As after the lock of a suspended program was broken. */
const open: SessionLock = { acquire: async () => async () => undefined }

let made: Built
beforeEach(async () => {
  made = await scratch()
})
afterEach(() => made.remove())

describe("A program that is suspended", () => {
  it("during its logout does not clear the session of a later login", async () => {
    const sessionStore = memorySessionStore()
    const service = recordingService()
    const [first, second] = [1, 2].map(() => startClient({ sessionStore, lock: open }, service))
    await first?.client.login("oac_1")
    let answer: () => void = () => undefined
    service.answers.logout = () =>
      new Promise((resolve) => {
        answer = () => resolve(new Response(null, { status: 204 }))
      })
    const logout = first?.client.logout()
    await expect.poll(() => service.calls.at(-1)).toBe("logout")
    await second?.client.login("oac_2")
    answer()
    expect(await logout).toMatchObject({ ok: true, value: { revoked: true } })
    expect(await second?.client.session()).toMatchObject({ value: { org_id: "acme" } })
  })

  it("before it saves a pair does not replace a newer one, and continues with that", async () => {
    const inner = fileSessionStore({ directory: made.folder })
    const service = recordingService()
    const second = startClient({ sessionStore: inner, lock: open }, service)
    let suspended = false
    const sessionStore: SessionStore = {
      ...inner,
      save: async (slot, session, replaced) => {
        if (suspended) {
          suspended = false
          second.pass(life)
          expect(await second.client.me()).toMatchObject({ ok: true })
        }
        return inner.save(slot, session, replaced)
      }
    }
    const first = startClient({ sessionStore, lock: open }, service)
    await first.client.login("oac_1")
    first.pass(life)
    suspended = true
    expect(await first.client.me()).toMatchObject({ ok: true })
    const tokens = service.requests.map(({ headers }) => headers.get("authorization"))
    // The first refresh of the stub had the second pair, the other program's refresh the third.
    expect(tokens.at(-1)).toBe("Bearer oat_3")
    expect((await first.client.session()).value).toEqual((await second.client.session()).value)
  })
})
