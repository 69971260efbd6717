/** When a session is refreshed, what callers get of a failed refresh, that no new pair is lost, and what `session` and `status` say. */
import { setTimeout as sleep } from "node:timers/promises"
import { afterEach, describe, expect, it, vi } from "vitest"
import { memorySessionStore, type SessionStore } from "../../../client/index.ts"
import { failed, loggedIn, makeClient, ok, testingKey } from "../support/ClientWorld.ts"
import { type Answer, changed, failure, type Headers, life } from "../support/Service.ts"

const second = 1_000
const day = 86_400 * second

/** The lifetime in seconds, a step of the wall clock, and time that passes on both clocks. */
it.each<readonly [string, boolean, number, number, number]>([
  ["a minute before its end", true, 1_800, 0, 1_741 * second],
  ["no sooner", false, 1_800, 0, 1_739 * second],
  ["in the last tenth of a short life", true, 100, 0, 91 * second],
  ["no sooner in a short life", false, 100, 0, 89 * second],
  ["also when the wall clock was set back", true, 1_800, -day, 1_790 * second],
  ["not because the wall clock was set back", false, 1_800, -day, 0],
  ["after the machine slept", true, 1_800, day, 0]
])("An access token is refreshed %s (%s)", async (_, refreshes, expires_in, stepped, passed) => {
  const { answers, calls, client, pass, requests, step } = makeClient()
  answers.login = changed({ expires_in })
  await client.login("oac_1")
  requests.length = 0
  step(stepped)
  pass(passed)
  for (const _ of [1, 2]) expect(await client.me()).toMatchObject(ok)
  expect(calls()).toEqual(refreshes ? ["refresh", "me", "me"] : ["me", "me"])
})

it("A pair that was received before the machine slept is no new one: its rotation is not requested again", async () => {
  // The identity service knows a key for a day, and takes a later repetition for a theft.
  const { client, keys, once, pass, service, step } = await loggedIn()
  pass(life)
  once("refresh", (right) => {
    const answer = right()
    service.expire(life / second)
    step(day)
    return answer
  })
  expect(await client.me()).toMatchObject(ok)
  expect(new Set(keys())).toHaveProperty("size", keys().length - 1)
})

it("Another program with the same store knows the age of a token; a time in the future is none", async () => {
  const { again, calls, pass, requests, step } = await loggedIn()
  await again().me()
  pass(1_790 * second)
  await again().me()
  expect(calls()).toEqual(["me", "refresh", "me"])
  requests.length = 0
  step(-day)
  await again().me()
  expect(calls()).toEqual(["refresh", "me"])
})

describe("A refused refresh", () => {
  afterEach(() => void vi.useRealTimers())

  /** A client whose token has expired, while the service limits refreshes. */
  const limited = async (seconds: string) => {
    const world = await loggedIn()
    const { answers, pass } = world
    answers.refresh = () => failure(429, "rate_limited", { "retry-after": seconds }, { retryable: true })
    pass(life)
    return world
  }
  const limitFor = (retryAfterSeconds: number) => failed("rate_limited", undefined, { retryAfterSeconds })

  /** A client whose token has expired, and whose first refresh is answered with this at the end of its deadline. */
  const expiring = async (answer: Response) => {
    const world = await loggedIn()
    world.once("refresh", () => {
      world.pass(30 * second)
      return answer
    })
    world.pass(life)
    return world
  }

  it("is shared by all callers, and repeated after Retry-After, not before", async () => {
    const { answers, calls, client, pass } = await limited("60")
    const results = await Promise.all(Array.from({ length: 50 }, () => client.me()))
    for (const result of results) expect(result).toMatchObject(limitFor(60))
    pass(20 * second)
    expect(await client.me()).toMatchObject(limitFor(40))
    delete answers.refresh
    // The limit ends 10 ms before the deadline of 30 s: the service would count the request, and its answer would be late.
    pass(10_010)
    expect(await client.me()).toMatchObject(limitFor(30))
    expect(calls()).toEqual(["refresh"])
    pass(30 * second)
    expect(await client.me()).toMatchObject(ok)
    expect(calls()).toEqual(["refresh", "refresh", "me"])
  })

  it.each<readonly [string, Answer]>([
    ["before Retry-After", () => failure(429, "rate_limited", { "retry-after": "5" }, { retryable: true })],
    ["for 5 s after another failure", () => new Response("<html>", { status: 401 })]
  ])("is not repeated %s when it was early, and calls continue", async (_, answer) => {
    const { answers, calls, client, pass } = await loggedIn()
    answers.refresh = answer
    pass(life - 30 * second)
    for (const milliseconds of [0, 4_999, 1]) {
      pass(milliseconds)
      expect(await client.me()).toMatchObject(ok)
    }
    expect(calls()).toEqual(["refresh", "me", "me", "refresh", "me"])
  })

  it("does not block a new login", async () => {
    // Longer than the lifetime of the new token.
    const { answers, calls, client, pass } = await limited("3600")
    await client.me()
    delete answers.refresh
    expect(await client.login("oac_2")).toMatchObject(ok)
    pass(life)
    expect(await client.me()).toMatchObject(ok)
    expect(calls()).toEqual(["refresh", "login", "refresh", "me"])
  })

  const overloaded = (headers: Headers = {}) => failure(503, "overloaded", headers, { retryable: true })

  it("is repeated once for callers with a later deadline, after the pause that the service asks for", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
    const { calls, client, later } = await expiring(overloaded({ "retry-after": "40" }))
    const [first, ...others] = [30_000, ...Array<number>(50).fill(90_000)].map((deadlineMilliseconds) =>
      client.me({ deadlineMilliseconds })
    )
    expect(await first).toMatchObject(failed("overloaded"))
    await vi.advanceTimersByTimeAsync(40_000 - 1)
    expect(calls()).toEqual(["refresh"])
    await later(40_000)
    for (const result of await Promise.all(others)) expect(result).toMatchObject(ok)
    expect(calls().filter((call) => call === "refresh")).toHaveLength(2)
  })

  it("is not repeated for a caller that leaves meanwhile, or whose program logs out and in again", async () => {
    const { calls, client, logouts } = await expiring(overloaded())
    const waiting = { deadlineMilliseconds: 90_000 }
    const leaving = new AbortController()
    const first = client.me()
    const left = client.me({ ...waiting, signal: leaving.signal })
    const stays = client.ting({ type: "t", key: "k", data: {} }, waiting)
    expect(await first).toMatchObject(failed("overloaded"))
    leaving.abort()
    expect(await left).toMatchObject(failed("aborted"))
    // Whatever follows has been sent by then.
    await sleep(0)
    await client.logout({ forget: true })
    await client.login("oac_2")
    expect(await stays).toMatchObject(failed("not_logged_in"))
    expect(calls()).toEqual(["refresh", "logout", "login"])
    expect(logouts()).toHaveLength(1)
  })
})

describe("A new pair that cannot be saved", () => {
  /** A client of a store whose parts can be broken, and of a service that rotates once and answers a repetition with 409. */
  const breakable = async (probe: { readonly probe?: () => Promise<void> } = { probe: async () => {} }) => {
    const broken = { save: false }
    const inner = memorySessionStore()
    const save: SessionStore["save"] = (slot, session) =>
      broken.save ? Promise.reject(new Error("disk")) : inner.save(slot, session)
    const sessionStore = { ...inner, save, ...probe }
    const world = await loggedIn({ sessionStore })
    const asked = new Set<string | null>()
    world.answers.refresh = (right) => {
      const key = world.keys().at(-1) ?? null
      if (asked.has(key)) return failure(409, "idempotency_response_expired")
      asked.add(key)
      return right()
    }
    return { ...world, broken, inner }
  }
  const storeFailed = failed("store_failed")

  it("is kept after an early refresh, and saved as soon as the store works again", async () => {
    const { broken, calls, client, pass } = await breakable()
    pass(life - 30 * second)
    broken.save = true
    expect(await client.me()).toMatchObject(ok)
    pass(660 * second)
    expect(await client.me()).toMatchObject(storeFailed)
    broken.save = false
    expect(await client.me()).toMatchObject(ok)
    expect(calls()).toEqual(["refresh", "me", "me"])
  })

  it("is dropped when another client has saved a session since", async () => {
    const { broken, calls, client, inner, pass, requests, service } = await breakable()
    pass(life)
    broken.save = true
    await client.me()
    broken.save = false
    const other = makeClient({ sessionStore: inner }, service)
    other.pass(life)
    await other.client.login("oac_2")
    requests.length = 0
    expect(await client.me()).toMatchObject(ok)
    expect(calls()).toEqual(["me"])
    expect(requests[0]?.headers.get("authorization")).toBe("Bearer oat_3")
  })

  it("is prevented by the probe of the store: no rotation begins", async () => {
    const { broken, calls, client, pass } = await breakable({})
    broken.save = true
    pass(life)
    expect(await client.me()).toMatchObject(storeFailed)
    expect(calls()).toEqual([])
    broken.save = false
    expect(await client.me()).toMatchObject(ok)
    expect(calls()).toEqual(["refresh", "me"])
  })
})

const loggedOut = (reason: string) => ({ state: "logged_out", reason })

it("session() says when the access token ends, and a later end after a refresh", async () => {
  let now = Date.parse("2026-11-22T08:00:00Z")
  const { client } = makeClient({ clock: { now: () => now, monotonic: () => now } })
  expect(await client.login("oac_1")).toMatchObject({ value: { expires_at: "2026-11-22T08:30:00.000Z" } })
  now += life
  await client.me()
  expect(await client.session()).toMatchObject({ value: { expires_at: "2026-11-22T09:00:00.000Z" } })
})

describe("status()", () => {
  it.each([
    [401, "unauthenticated", "revoked"],
    [409, "idempotency_response_expired", "lost"]
  ])("says after %i %s that the session is over, once for all callers", async (status, code, reason) => {
    const { answers, client, logouts, pass, sessionStore } = await loggedIn()
    answers.refresh = () => failure(status, code)
    pass(life)
    const over = failed("logged_out", reason, { hint: expect.stringContaining("og in") })
    expect(await Promise.all([client.me(), client.me()])).toMatchObject([over, over])
    expect(logouts()).toMatchObject([{ reason }])
    for (const _ of [1, 2]) expect(await client.status()).toEqual(loggedOut(reason))
    // A client that did not see the end knows only that there is no session.
    const second = makeClient({ sessionStore })
    expect(await second.client.status()).toEqual(loggedOut("not_logged_in"))
    await second.client.login("oac_2")
    expect(await client.session()).toMatchObject({ value: { org_id: "acme" } })
    await second.client.logout()
    expect(await client.status()).toEqual(loggedOut("not_logged_in"))
  })

  it("says that new tokens are refused while the session stays, and unknown during an outage", async () => {
    const { answers, client, logouts } = await loggedIn()
    answers.me = () => failure(401, "unauthenticated")
    for (const _ of [1, 2]) expect(await client.status()).toEqual(loggedOut("refused"))
    expect(logouts()).toMatchObject([{ reason: "refused" }])
    expect(await client.session()).toMatchObject({ value: { org_id: "acme" } })
    answers.me = () => failure(503, "dependency_unavailable", { "retry-after": "60" })
    const error = { code: "dependency_unavailable", retryAfterSeconds: 60 }
    expect(await client.status()).toMatchObject({ state: "unknown", error })
    delete answers.me
    expect(await client.status()).toMatchObject({ state: "authenticated" })
  })
})

it("A client of a testing plane takes no session of production, neither from the service nor from its store", async () => {
  const { sessionStore } = await loggedIn()
  const { client } = makeClient({ testingKey, sessionStore })
  expect(await client.login("si:deejay")).toMatchObject(failed("unexpected_answer", "other_plane"))
  expect(await client.session()).toMatchObject({ ok: true, value: null })
})

it.each([
  ["trigger/7", "si:deejay/trigger/7"],
  ["si:deejay/trigger/7", "si:deejay/trigger/7"],
  // The service refuses another's key.
  ["c:bob/trigger", "c:bob/trigger"],
  ["si:x/trigger", "si:deejay/si:x/trigger"],
  ["", ""],
  [7, 7]
])("The key %j of a ting is sent as %j", async (key, sent) => {
  const { client, requests } = await loggedIn()
  await client.ting({ type: "t", key: key as string, data: {} })
  expect(JSON.parse(requests[0]?.body ?? "").key).toEqual(sent)
})
