import { createHash } from "node:crypto"
import { afterEach, describe, expect, vi } from "vitest"
import { it } from "../../world/Test.ts"
import * as Effect from "effect/Effect"
import { deriveKey, loginKey, randomUuid } from "../../../client/calls/IdempotencyKeys.ts"
import { startClient } from "../support/RecordingService.ts"
import { idempotencyKeyPattern } from "../../../src/schema/Patterns.ts"
import { uuidPattern } from "../../../src/schema/Patterns.ts"

const token = "ort_EXAMPLEexampleEXAMPLEexampleEXAMPLEexample1"

describe("Without Web Crypto", () => {
  afterEach(() => void vi.unstubAllGlobals())

  it("calls that need a session fail with unsupported, and others work", async () => {
    // As in a page without https.
    vi.stubGlobal("crypto", { getRandomValues: crypto.getRandomValues.bind(crypto) })
    const { calls, client } = startClient()
    const refused = { ok: false, error: { code: "unsupported", retryable: false } }
    expect(await client.login("oac_1")).toMatchObject(refused)
    expect(await client.me()).toMatchObject(refused)
    expect(await client.session()).toMatchObject(refused)
    expect(calls).toEqual([])
    expect(await client.request("GET", "/x", { session: "none" })).toMatchObject({ ok: true })
  })
})

describe("Idempotency keys", () => {
  it.effect("are frozen digests of a credential, one for each operation", function* () {
    const keys = yield* Effect.all([
      deriveKey("login", token),
      deriveKey("refresh", token),
      deriveKey("logout", token)
    ])
    // Literal, not computed: another value would break every replay across an upgrade.
    expect(keys[1]).toBe("4731d4082fc84199cf912f07e1a543795e773f06c4aee23cf0ee11680417eb17")
    const digest = (text: string) => createHash("sha256").update(text).digest("hex")
    expect(keys).toEqual(
      ["login", "refresh", "logout"].map((operation) => digest(`music-client/v1\n${operation}\n${token}`))
    )
    for (const key of keys) expect(key).toMatch(idempotencyKeyPattern)
  })

  it.effect("are derived for a short-lived token, and random for a test public id", function* () {
    expect(yield* loginKey("oac_1")).toBe(yield* deriveKey("login", "oac_1"))
    expect(yield* loginKey("si:deejay")).not.toBe(yield* loginKey("si:deejay"))
    expect(yield* randomUuid).toMatch(uuidPattern)
    expect((yield* randomUuid)[14]).toBe("4")
  })
})
