/** Failed refreshes: shared by all callers, not repeated before `Retry-After`, and no new pair is lost. */
import { execFile } from "node:child_process"
import { readdir, readFile } from "node:fs/promises"
import { fileURLToPath } from "node:url"
import { describe, expect, it } from "vitest"
import {
  createMusicClient,
  memorySessionStore,
  type PromiseClientOptions,
  type SessionStore
} from "../../../client/index.ts"
import { fileSessionStore } from "../../../client/node.ts"
import { scratch } from "../support/Built.ts"
import { type Answers, failure, stubService } from "../support/StubService.ts"
import { stretchTimers } from "../support/Timers.ts"

const life = 1_800_000
const minute = 60_000

/** A client that has logged in, its clock, and its requests since. */
const loggedIn = async (given: Partial<PromiseClientOptions> = {}, first = 1) => {
  const answers: Record<string, Answers[string]> = {}
  const { calls, fetch, keys } = stubService(answers, first)
  let now = 1_800_000_000_000
  const client = createMusicClient({
    baseUrl: "https://music.example",
    source: "daemon",
    telemetry: false,
    clock: { now: () => now, monotonic: () => now },
    random: () => 0,
    fetch,
    ...given
  })
  expect(await client.login("oac_1")).toMatchObject({ ok: true })
  calls.length = 0
  keys.length = 0
  return {
    answers,
    calls,
    client,
    keys,
    pass: (milliseconds: number) => {
      now += milliseconds
    }
  }
}

const many = Array.from({ length: 50 })

describe("A refused refresh", () => {
  it("is shared by all callers, and all get its Retry-After", async () => {
    const { answers, calls, client, pass } = await loggedIn()
    answers.refresh = () => failure(429, "rate_limited", { "retry-after": "60" })
    pass(life)
    const results = await Promise.all(many.map(() => client.me()))
    for (const result of results)
      expect(result).toMatchObject({ ok: false, error: { code: "rate_limited", retryAfterSeconds: 60 } })
    expect(calls).toEqual(["refresh"])
  })

  it("is repeated after Retry-After, not before", async () => {
    const { answers, calls, client, pass } = await loggedIn()
    answers.refresh = () => failure(429, "rate_limited", { "retry-after": "60" })
    pass(life)
    await client.me()
    pass(20_000)
    expect(await client.me()).toMatchObject({
      ok: false,
      error: { code: "rate_limited", retryAfterSeconds: 40 }
    })
    expect(calls).toEqual(["refresh"])
    delete answers.refresh
    pass(40_000)
    expect(await client.me()).toMatchObject({ ok: true })
    expect(calls).toEqual(["refresh", "refresh", "me"])
  })

  it("is not repeated before Retry-After when it was early, and calls continue", async () => {
    const { answers, calls, client, pass } = await loggedIn()
    answers.refresh = () => failure(429, "rate_limited", { "retry-after": "45" })
    pass(life - 59_000)
    for (let count = 0; count < 6; count += 1) {
      expect(await client.me()).toMatchObject({ ok: true })
      pass(7_000)
    }
    expect(calls.filter((call) => call === "refresh")).toHaveLength(1)
  })

  it("is not repeated when less than a second of the deadline is left then", async () => {
    const { answers, calls, client, pass } = await loggedIn()
    answers.refresh = () => failure(429, "rate_limited", { "retry-after": "60" })
    pass(life)
    await client.me()
    delete answers.refresh
    // The limit ends 10 ms before the deadline of 30 s: the service would count the request, and its answer would be late.
    pass(30_010)
    expect(await client.me()).toMatchObject({
      ok: false,
      error: { code: "rate_limited", retryAfterSeconds: 30 }
    })
    expect(calls).toEqual(["refresh"])
  })

  it("is remembered for 15 minutes at most, whatever an intermediary asks for", async () => {
    const { answers, calls, client, pass } = await loggedIn()
    answers.refresh = () => failure(429, "rate_limited", { "retry-after": "99999999999" })
    pass(life)
    expect(await client.me()).toMatchObject({ ok: false, error: { code: "rate_limited" } })
    delete answers.refresh
    pass(15 * minute)
    expect(await client.me()).toMatchObject({ ok: true })
    expect(calls).toEqual(["refresh", "refresh", "me"])
  })

  it("does not block a new login", async () => {
    const { answers, calls, client, pass } = await loggedIn()
    // Longer than the lifetime of the new token.
    answers.refresh = () => failure(429, "rate_limited", { "retry-after": "3600" })
    pass(life)
    await client.me()
    delete answers.refresh
    expect(await client.login("oac_2")).toMatchObject({ ok: true })
    pass(life)
    expect(await client.me()).toMatchObject({ ok: true })
    expect(calls).toEqual(["refresh", "login", "refresh", "me"])
  })

  it("is repeated for callers with a later deadline", async () => {
    const { answers, client, pass } = await loggedIn({ attemptMilliseconds: 5_000 })
    let silent = 1
    const answer = stubService({}, 50).fetch
    answers.refresh = () => {
      silent -= 1
      return silent >= 0
        ? new Promise<Response>(() => undefined)
        : answer("https://music.example/api/v1/auth/refresh")
    }
    pass(life)
    const [first, ...others] = await Promise.all([
      client.me({ deadlineMilliseconds: 30 }),
      ...many.map(() => client.me({ deadlineMilliseconds: 60_000 }))
    ])
    expect(first).toMatchObject({ ok: false, error: { code: "timed_out" } })
    for (const result of others) expect(result).toMatchObject({ ok: true })
    expect(silent).toBe(-1)
  })
})

describe("A refused refresh that calls itself retryable, as no service does", () => {
  stretchTimers()

  it("ends no session", async () => {
    // The clock does not move, so no second attempt fits.
    const { answers, client, pass } = await loggedIn({ deadlineMilliseconds: 100 })
    const error = { code: "unauthenticated", message: "m", hint: "h", retryable: true }
    answers.refresh = () => new Response(JSON.stringify({ error }), { status: 401 })
    pass(life)
    expect(await client.status()).toMatchObject({ state: "unknown", error: { code: "unexpected_answer" } })
    delete answers.refresh
    expect(await client.me()).toMatchObject({ ok: true })
  })
})

describe("A new pair that cannot be saved", () => {
  /** A memory whose saving can be switched off, with the probe in front of it or without. */
  const faulty = (probes: boolean) => {
    const inner = memorySessionStore()
    const broken = { now: false }
    const save: SessionStore["save"] = (slot, session) =>
      broken.now ? Promise.reject(new Error("disk")) : inner.save(slot, session)
    const { probe: _, ...rest } = inner
    const sessionStore: SessionStore = {
      ...rest,
      save,
      ...(probes ? {} : { probe: () => Promise.resolve() })
    }
    return { broken, sessionStore, inner }
  }

  /** Rotates once; a repetition under the same key gets 409. */
  const oneRotation = (service: Awaited<ReturnType<typeof loggedIn>>) => {
    const answer = stubService({}, 50).fetch
    const asked = new Set<string | null>()
    service.answers.refresh = () => {
      const key = service.keys.at(-1) ?? null
      if (asked.has(key)) return failure(409, "idempotency_response_expired")
      asked.add(key)
      return answer("https://music.example/api/v1/auth/refresh")
    }
  }

  it("is kept after an early refresh, and saved as soon as the store works again", async () => {
    const { broken, sessionStore } = faulty(false)
    const service = await loggedIn({ sessionStore })
    const { calls, client, pass } = service
    oneRotation(service)
    pass(life - 30_000)
    broken.now = true
    expect(await client.me()).toMatchObject({ ok: true })
    expect(calls).toEqual(["refresh", "me"])
    pass(11 * minute)
    expect(await client.me()).toMatchObject({ ok: false, error: { code: "store_failed" } })
    broken.now = false
    expect(await client.me()).toMatchObject({ ok: true })
    expect(calls).toEqual(["refresh", "me", "me"])
  })

  it("is refreshed at once when it has expired before it is saved", async () => {
    const { broken, sessionStore } = faulty(false)
    const service = await loggedIn({ sessionStore })
    const { calls, client, pass } = service
    pass(life)
    broken.now = true
    await client.me()
    pass(life)
    broken.now = false
    expect(await client.me()).toMatchObject({ ok: true })
    expect(calls).toEqual(["refresh", "refresh", "me"])
    expect(new Set(service.keys.slice(0, 2)).size).toBe(2)
  })

  it("is kept also when the store cannot be read", async () => {
    const { inner } = faulty(false)
    const broken = { now: false }
    const sessionStore: SessionStore = {
      ...inner,
      load: (slot) => (broken.now ? Promise.reject(new Error("disk")) : inner.load(slot))
    }
    const service = await loggedIn({ sessionStore })
    const { calls, client, pass } = service
    oneRotation(service)
    const { refresh } = service.answers
    service.answers.refresh = () => {
      broken.now = true
      return refresh?.() ?? failure(500, "internal")
    }
    pass(life)
    expect(await client.me()).toMatchObject({ ok: false, error: { code: "store_failed" } })
    broken.now = false
    pass(11 * minute)
    expect(await client.me()).toMatchObject({ ok: true })
    expect(calls).toEqual(["refresh", "me"])
  })

  it("is dropped when another client has saved a session since", async () => {
    const { broken, inner, sessionStore } = faulty(false)
    const service = await loggedIn({ sessionStore })
    const { calls, client, pass } = service
    pass(life)
    broken.now = true
    await client.me()
    broken.now = false
    let slot = ""
    const seen: SessionStore = {
      ...inner,
      load: (name) => {
        slot = name
        return inner.load(name)
      }
    }
    const other = await loggedIn({ sessionStore: seen }, 100)
    other.pass(life)
    await inner.clear(slot)
    await other.client.login("oac_2")
    calls.length = 0
    expect(await client.me()).toMatchObject({ ok: true })
    expect(calls).toEqual(["me"])
  })

  it("is prevented by the probe of the store: no rotation begins", async () => {
    const { broken, sessionStore } = faulty(true)
    const { calls, client, pass } = await loggedIn({ sessionStore })
    pass(life - 30_000)
    broken.now = true
    expect(await client.me()).toMatchObject({ ok: true })
    pass(life)
    expect(await client.me()).toMatchObject({ ok: false, error: { code: "store_failed" } })
    expect(calls).toEqual(["me"])
    broken.now = false
    expect(await client.me()).toMatchObject({ ok: true })
    expect(calls).toEqual(["me", "refresh", "me"])
  })
})

describe("A full disk", () => {
  const program = fileURLToPath(new URL("../programs/full-disk.ts", import.meta.url))

  /** A process that may write no byte to any file, as on a full disk. */
  const onFullDisk = (directory: string): Promise<string> =>
    new Promise((resolve, reject) => {
      const words = ["-c", 'ulimit -f 0; exec "$0" "$@"', process.execPath, "--import", "tsx", program]
      execFile("sh", [...words, directory], (error, out) => (error === null ? resolve(out) : reject(error)))
    })

  it("prevents a refresh, and leaves only the session", async () => {
    const { folder, remove } = await scratch()
    const sessionStore = fileSessionStore({ directory: folder })
    const { calls, client, pass } = await loggedIn({ sessionStore })
    const [name = ""] = await readdir(folder)
    const before = await readFile(`${folder}/${name}`, "utf8")
    const output: unknown = JSON.parse(await onFullDisk(folder))
    expect(output).toEqual({ lock: "EFBIG", probe: "EFBIG", save: "EFBIG", loaded: true })
    expect(await readdir(folder)).toEqual([name])
    expect(await readFile(`${folder}/${name}`, "utf8")).toBe(before)
    pass(life)
    expect(await client.me()).toMatchObject({ ok: true })
    expect(calls).toEqual(["refresh", "me"])
    expect(await readdir(folder)).toEqual([name])
    await remove()
  })
})
