/** Idempotency keys: derived ones are frozen, random ones are named by a failure that may have taken effect. */
import { createHash } from "node:crypto"
import { afterEach, describe, expect, it, vi } from "vitest"
import { newIdempotencyKey } from "../../client/index.ts"
import { idempotencyKeyPattern, uuidPattern } from "../../src/schema/Patterns.ts"
import { loggedIn, makeClient, type Method, methods, testingKey } from "./support/ClientWorld.ts"
import { failure, json, life, loginOf, never, pairOf, responses } from "./support/Service.ts"

afterEach(() => void vi.unstubAllGlobals())

describe("The keys of login, refresh and logout", () => {
  it("are frozen digests of a credential, one for each operation", async () => {
    const token = "ort_EXAMPLEexampleEXAMPLEexampleEXAMPLEexample1"
    const { answers, client, keys, pass } = makeClient()
    answers.login = () => json(loginOf(1, { refresh_token: token }))
    answers.refresh = () => json(pairOf(2, { refresh_token: token }))
    answers.me = () => json(responses.me)
    // Programs without a type checker may pass null for what they leave out.
    await client.login("oac_1", { idempotencyKey: null as never })
    pass(life)
    await client.me()
    await client.logout()
    const [login, refresh, , logout] = keys()
    // Literal, not computed: another value would break every replay across an upgrade.
    expect(refresh).toBe("4731d4082fc84199cf912f07e1a543795e773f06c4aee23cf0ee11680417eb17")
    const digest = (operation: string, credential: string) =>
      createHash("sha256").update(`music-client/v1\n${operation}\n${credential}`).digest("hex")
    expect([login, logout]).toEqual([digest("login", "oac_1"), digest("logout", token)])
    expect(login).toMatch(idempotencyKeyPattern)
  })

  it("are random for the login of a test public id, which can log in many times", async () => {
    const { answers, client, keys } = makeClient({ testingKey })
    answers.login = () => failure(403, "forbidden")
    await client.login("si:deejay")
    await client.login("si:deejay")
    expect(new Set(keys()).size).toBe(2)
    for (const key of [...keys(), newIdempotencyKey()]) expect(key).toMatch(uuidPattern)
  })

  it("are those of one test public id: another one under the same key gets no session of the first", async () => {
    const { answers, calls, client } = makeClient({ testingKey })
    const own = { testing_environment_id: "0199b000-0000-7000-8000-00000000000e" }
    answers.login = () => json(loginOf(1, own))
    const options = { idempotencyKey: newIdempotencyKey() }
    for (const _ of [1, 2])
      expect(await client.login("si:deejay", options)).toMatchObject({
        ok: true,
        value: { actor: { public_id: "si:deejay" } }
      })
    expect(calls()).toEqual(["login"])
    answers.login = () => failure(409, "idempotency_conflict")
    const other = await client.login("si:lyra", options)
    expect(other).toMatchObject({ ok: false, error: { code: "idempotency_conflict" } })
    expect(await client.session()).toMatchObject({ value: { actor: { public_id: "si:deejay" } } })
  })

  it("are no name of a short-lived token: another one under the same key gets no session of the first", async () => {
    const { answers, calls, client } = makeClient()
    const options = { idempotencyKey: newIdempotencyKey() }
    for (const _ of [1, 2]) expect(await client.login("oac_1", options)).toMatchObject({ ok: true })
    expect(calls()).toEqual(["login"])
    answers.login = () => json(loginOf(2, { actor: { type: "silicon", public_id: "si:lyra" } }))
    const value = { actor: { public_id: "si:lyra" } }
    expect(await client.login("oac_2", options)).toMatchObject({ ok: true, value })
    expect(await client.session()).toMatchObject({ value })
  })

  it("need Web Crypto: without it such calls fail with unsupported, and others work", async () => {
    // As in a page without https.
    vi.stubGlobal("crypto", { getRandomValues: crypto.getRandomValues.bind(crypto) })
    const { calls, client } = makeClient()
    for (const result of [await client.login("oac_1"), await client.me(), await client.session()])
      expect(result).toMatchObject({ ok: false, error: { code: "unsupported", retryable: false } })
    expect(calls()).toEqual([])
    expect(await client.request("GET", "/x", { session: "none" })).toMatchObject({ ok: true })
  })
})

/** A client whose calls are aborted as soon as they have been sent. */
const aborting = (call: string) => {
  const made = makeClient()
  const controller = new AbortController()
  made.answers[call] = () => {
    controller.abort()
    return never()
  }
  return { ...made, signal: controller.signal }
}

const login: Method = { path: "login", run: (client, options) => client.login("si:deejay", options) }
it.each([methods.report, methods.request, login])(
  "A random key is named when no answer arrives, with the request: $path",
  async ({ path, run }) => {
    const { client, keys, requests, signal } = aborting(path)
    const result = await run(client, { signal })
    const requestId = requests[0]?.headers.get("x-request-id")
    const idempotencyKey = keys()[0]
    const hint = expect.stringContaining(`idempotencyKey ${idempotencyKey}`)
    expect(result.error).toMatchObject({ code: "aborted", requestId, details: { idempotencyKey }, hint })
  }
)

it("A random key is named when the answer before a refusal was lost, whatever ends the call", async () => {
  const { answers, client, keys, once } = await loggedIn()
  answers.refresh = () => failure(403, "forbidden")
  once("reports", () => {
    once("reports", () => failure(401, "unauthenticated"))
    return new Response("", { status: 502 })
  })
  const result = await client.report({ message: "m" })
  expect(result.error).toMatchObject({ code: "forbidden", details: { idempotencyKey: keys()[0] } })
})

it("No key is named when the service refused, and none that is derived", async () => {
  const { answers, client } = makeClient()
  answers.reports = () => failure(413, "payload_too_large")
  const { client: leaving, signal } = aborting("login")
  const results = [await client.report({ message: "m" }), await leaving.login("oac_1", { signal })]
  for (const { error } of results) {
    expect(error).toBeDefined()
    expect(error?.details?.idempotencyKey).toBeUndefined()
  }
})
