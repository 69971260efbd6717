/** A login and the lock: no request is sent before the lock is held, and a received session is saved. */
import { describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/TestClock"
import { fetchTransport } from "../../../client/transport/FetchTransport.ts"
import { makeMusicClient } from "../../../client/MusicClient.ts"
import { createMusicClient, memorySessionStore, type SessionLock } from "../../../client/index.ts"
import { stubService } from "../support/StubService.ts"
import { waitFor } from "../../support/Waiting.ts"

const options = { baseUrl: "https://music.example", source: "cli", telemetry: false } as const

/** Ignores even the signal. */
const never: SessionLock = { acquire: () => new Promise(() => undefined) }

describe("A login that waits for the lock", () => {
  it("ends at its deadline without spending its token", async () => {
    const { calls, fetch } = stubService()
    const client = createMusicClient({ ...options, lock: never, fetch })
    expect(await client.login("oac_1", { deadlineMilliseconds: 20 })).toMatchObject({
      ok: false,
      error: { code: "timed_out", hint: expect.stringContaining("lock"), requestId: null }
    })
    expect(calls).toEqual([])
  })

  it("ends at once when it is aborted", async () => {
    const { calls, fetch } = stubService()
    const client = createMusicClient({ ...options, lock: never, fetch })
    const signal = AbortSignal.timeout(20)
    expect(await client.login("oac_1", { signal })).toMatchObject({ ok: false, error: { code: "aborted" } })
    expect(calls).toEqual([])
  })

  it("releases a lock that is granted after the deadline", async () => {
    let grant: (release: () => Promise<void>) => void = () => undefined
    const granted = new Promise<() => Promise<void>>((resolve) => {
      grant = resolve
    })
    const client = createMusicClient({ ...options, lock: { acquire: () => granted } })
    await client.login("oac_1", { deadlineMilliseconds: 20 })
    await new Promise<void>((released) => grant(async () => released()))
  })
})

describe("A login that waits for the lock of a dead holder", () => {
  it.effect("runs once when the lock is granted after 15 s", function* () {
    const asked = yield* Deferred.make<void>()
    const granted = yield* Deferred.make<() => Promise<void>>()
    const lock: SessionLock = {
      acquire: () => {
        Effect.runSync(Deferred.succeed(asked, undefined))
        return Effect.runPromise(Deferred.await(granted))
      }
    }
    const { fetch } = stubService()
    const client = yield* makeMusicClient({ ...options, lock }, fetchTransport(fetch))
    const login = yield* Effect.fork(client.login("oac_1"))
    yield* Deferred.await(asked)
    yield* TestClock.adjust("15 seconds")
    yield* Deferred.succeed(granted, () => Promise.resolve())
    expect(yield* Fiber.join(login)).toMatchObject({ org_id: "acme" })
  })
})

describe("A login with a received session", () => {
  const failing = () => {
    const inner = memorySessionStore()
    const broken = { now: true }
    const sessionStore: typeof inner = {
      ...inner,
      save: (slot, session) => (broken.now ? Promise.reject(new Error("disk")) : inner.save(slot, session))
    }
    return { broken, sessionStore }
  }

  it("that cannot be saved names the fix; the same token then returns the same login", async () => {
    const { calls, fetch, keys } = stubService()
    const { broken, sessionStore } = failing()
    const client = createMusicClient({ ...options, sessionStore, fetch })
    expect(await client.login("oac_1")).toMatchObject({
      ok: false,
      error: { code: "store_failed", retryable: true, hint: expect.stringMatching(/same token.*10 minutes/) }
    })
    broken.now = false
    expect(await client.login("oac_1")).toMatchObject({ ok: true })
    expect(calls).toEqual(["login", "login"])
    expect(keys[0]).toBe(keys[1])
  })

  it("with a test public id names its key when the save fails", async () => {
    const { fetch, keys } = stubService()
    const { broken, sessionStore } = failing()
    const client = createMusicClient({ ...options, sessionStore, fetch })
    expect(await client.login("si:deejay")).toMatchObject({
      ok: false,
      error: { hint: expect.stringContaining(`idempotencyKey ${keys[0]}`) }
    })
    broken.now = false
    expect(await client.login("si:deejay", { idempotencyKey: keys[0] ?? "" })).toMatchObject({ ok: true })
    expect(new Set(keys).size).toBe(1)
  })

  it("saves the session also when the call is aborted at that moment", async () => {
    const { fetch } = stubService()
    const controller = new AbortController()
    const inner = memorySessionStore()
    const sessionStore: typeof inner = {
      ...inner,
      save: async (slot, session) => {
        controller.abort()
        await new Promise((resolve) => setImmediate(resolve))
        return inner.save(slot, session)
      }
    }
    const client = createMusicClient({ ...options, sessionStore, fetch })
    await client.login("oac_1", { signal: controller.signal })
    await waitFor(async () =>
      expect(await client.session()).toMatchObject({ ok: true, value: { org_id: "acme" } })
    )
  })
})
