/** Idempotency keys: derived ones are frozen, random ones are named by a failure that may have taken effect. */
import { createHash } from "node:crypto"
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest"
import { newIdempotencyKey, type Result } from "../../client/index.ts"
import { idempotencyKeyPattern, uuidPattern } from "../../src/schema/Patterns.ts"
import {
  failure,
  life,
  loggedIn,
  makeClient,
  never,
  pairOf,
  json,
  testingKey
} from "./support/ClientWorld.ts"

afterEach(() => {
  vi.unstubAllGlobals()
  vi.useRealTimers()
})

describe("The keys of login, refresh and logout", () => {
  it("are frozen digests of a credential, one for each operation", async () => {
    const token = "ort_EXAMPLEexampleEXAMPLEexampleEXAMPLEexample1"
    const { answers, client, keys, pass } = makeClient()
    answers.login = () => json({ ...pairOf(1, { refresh_token: token }), ting: { subscribed: true } })
    answers.refresh = () => json(pairOf(2, { refresh_token: token }))
    await client.login("oac_1")
    pass(life)
    await client.me()
    await client.logout()
    const [login, refresh, , logout] = keys()
    // Literal, not computed: another value would break every replay across an upgrade.
    expect(refresh).toBe("4731d4082fc84199cf912f07e1a543795e773f06c4aee23cf0ee11680417eb17")
    const digest = (operation: string, credential: string) =>
      createHash("sha256").update(`music-client/v1\n${operation}\n${credential}`).digest("hex")
    expect([login, refresh, logout]).toEqual([
      digest("login", "oac_1"),
      digest("refresh", token),
      digest("logout", token)
    ])
    expect(login).toMatch(idempotencyKeyPattern)
  })

  it("are random for the login of a test public id, which can log in many times", async () => {
    const { answers, client, keys } = makeClient({ testingKey })
    answers.login = () => failure(403, "forbidden")
    await client.login("si:deejay")
    await client.login("si:deejay")
    expect(new Set(keys()).size).toBe(2)
    for (const key of [...keys(), newIdempotencyKey()]) expect(key).toMatch(uuidPattern)
    expect(newIdempotencyKey()[14]).toBe("4")
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

const draft = { message: "Playback stops after a seek." }
const short = { deadlineMilliseconds: 5_000 }

describe("A call with a random key", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }))

  /** A client whose calls get no answer; the deadline passes as soon as a request has been sent. */
  const silent = (...calls: ReadonlyArray<string>) => {
    const made = makeClient({ attemptMilliseconds: 2_000, testingKey: null })
    for (const call of calls)
      made.answers[call] = () => {
        setImmediate(() => {
          made.pass(60_000)
          vi.advanceTimersByTime(2_500)
        })
        return never()
      }
    return made
  }
  const keyIn = (result: Result<unknown>) => result.error?.details?.idempotencyKey

  it("names it when no answer arrives, and a repetition with it has the same key", async () => {
    const { answers, client, keys } = silent("reports")
    const result = await client.report(draft, short)
    const hint = expect.stringContaining(`idempotencyKey ${keyIn(result)}`)
    expect(result.error).toMatchObject({ code: "timed_out", hint })
    delete answers.reports
    expect(await client.report(draft, { idempotencyKey: String(keyIn(result)) })).toMatchObject({ ok: true })
    expect(keys()).toEqual([keyIn(result), keyIn(result)])
  })

  it("names it when the caller aborts, with the id of the request that was sent", async () => {
    const { answers, client, keys, requests } = makeClient()
    const controller = new AbortController()
    answers.reports = () => {
      controller.abort()
      return never()
    }
    const { error } = await client.report(draft, { signal: controller.signal })
    const requestId = requests[0]?.headers.get("x-request-id")
    expect(error).toMatchObject({ code: "aborted", requestId, details: { idempotencyKey: keys()[0] } })
  })

  it("names it for raw calls and for the login of a test public id", async () => {
    const { client, keys } = silent("login", "x")
    const results = [await client.login("si:deejay", short), await client.request("POST", "/x", short)]
    expect(results.map(keyIn)).toEqual(keys())
  })

  it("does not name it when the service refused, nor a key that the caller has or that is derived", async () => {
    const { answers, client } = silent("login", "tings")
    answers.reports = () => failure(413, "payload_too_large")
    const given = { idempotencyKey: "0123456789abcdef" }
    for (const result of [
      await client.report(draft),
      await client.report(draft, given),
      await client.login("oac_1", short),
      await client.request("POST", "/tings", { ...given, ...short })
    ]) {
      expect(result.ok).toBe(false)
      expect(keyIn(result)).toBeUndefined()
    }
  })
})

it("A call keeps its key and its body in all attempts", async () => {
  const { client, keys, once, requests } = await loggedIn()
  once("tings", () => new Response("", { status: 502 }))
  expect(await client.ting({ type: "t", key: "x", data: {} })).toMatchObject({ ok: true })
  expect(requests.map(({ body }) => body)).toEqual(
    Array(2).fill('{"type":"t","key":"si:deejay/x","data":{}}')
  )
  once("reports", () => new Response("", { status: 502 }))
  expect(await client.report(draft)).toMatchObject({ ok: true })
  expect(new Set(keys().slice(2)).size).toBe(1)
})
