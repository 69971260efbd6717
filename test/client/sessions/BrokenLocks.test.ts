/** Containers with one host name and one process number: each sees the lock of the other as dead, and no session is lost. */
import { afterEach, beforeEach, expect, it, vi } from "vitest"
import { fileSessionStore } from "../../../client/node.ts"
import { type Built, scratch } from "../support/Built.ts"
import { json, life, recordingService, startClient } from "../support/RecordingService.ts"
import { failure } from "../support/StubService.ts"

let made: Built
beforeEach(async () => {
  made = await scratch()
  // The tokens of the locks that this process holds (FileLock.ts): none is found, as in another container.
  const held: unknown = Reflect.get(globalThis, Symbol.for("music-client/held-file-locks"))
  if (!(held instanceof Set)) return expect.unreachable("the file lock has no registry")
  vi.spyOn(held, "has").mockReturnValue(false)
})
afterEach(async () => {
  vi.restoreAllMocks()
  await made.remove()
})

it("Two refreshes at the same time have one key, and both programs continue with the session", async () => {
  const service = recordingService()
  const [first, second] = [1, 2].map(() =>
    startClient({ sessionStore: fileSessionStore({ directory: made.folder }) }, service)
  )
  if (first === undefined || second === undefined) return expect.unreachable()
  await first.client.login("oac_1")
  const refreshes = () => service.requests.filter(({ url }) => url.endsWith("/refresh"))
  const spentUnder = new Map<string, string | null>()
  let together: () => void = () => undefined
  const bothSent = new Promise<void>((resolve) => {
    together = resolve
  })
  service.answers.refresh = async () => {
    const request = refreshes().at(-1)
    const spent = request?.body ?? ""
    const key = request?.headers.get("idempotency-key") ?? null
    if (refreshes().length === 2) together()
    await bothSent
    // As IAM: a spent token under another key ends the family.
    if ((spentUnder.get(spent) ?? key) !== key) return failure(401, "unauthenticated")
    spentUnder.set(spent, key)
    const generation = spentUnder.size + 1
    return json({
      access_token: `oat_${generation}`,
      refresh_token: `ort_${generation}`,
      token_type: "Bearer",
      expires_in: life / 1_000,
      scope: "self.identity.read",
      actor: { type: "silicon", public_id: "si:deejay" },
      org_id: "acme",
      org_ids: ["acme"],
      testing_environment_id: null
    })
  }
  for (const { pass } of [first, second]) pass(life)
  for (const result of await Promise.all([first.client.me(), second.client.me()]))
    expect(result).toMatchObject({ ok: true })
  expect(refreshes()).toHaveLength(2)
  expect(new Set(refreshes().map(({ headers }) => headers.get("idempotency-key"))).size).toBe(1)
  for (const { pass } of [first, second]) pass(life)
  for (const result of await Promise.all([first.client.me(), second.client.me()]))
    expect(result).toMatchObject({ ok: true })
  expect((await first.client.session()).value).toEqual((await second.client.session()).value)
  for (const { types } of [first, second]) expect(types()).not.toContain("logged_out")
})
