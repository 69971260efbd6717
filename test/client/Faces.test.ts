/** The promise client and the Effect client against the real server, behind a proxy with faults. */
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { afterAll, beforeAll, describe, expect } from "vitest"
import { MusicClient, withMetadata } from "../../client/effect.ts"
import {
  type ClientEvent,
  createMusicClient,
  newIdempotencyKey,
  type PromiseClientOptions
} from "../../client/index.ts"
import { createTelemetry } from "../../client/telemetry.ts"
import { it } from "../world/Test.ts"
import { storeWith } from "./support/ClientWorld.ts"
import { life } from "./support/Service.ts"
import { type FaultKind, startTestBench, type TestBench } from "./support/TestBench.ts"

const api = "/api/v1"
const paths = {
  login: `${api}/auth/login`,
  refresh: `${api}/auth/refresh`,
  logout: `${api}/auth/logout`,
  me: `${api}/auth/me`,
  subscribe: `${api}/ting/subscription`,
  ting: `${api}/tings`,
  report: `${api}/reports`
}
const telemetryPath = `${api}/telemetry`
const message = "Playback stops after a seek near the end of a track."
const tingOf = (key: string) => ({ type: "music.trigger.fired", key: `si:deejay/${key}`, data: { key } })
const ok = { ok: true }

let bench: TestBench
beforeAll(async () => {
  bench = await startTestBench()
})
afterAll(() => bench.close())

/** Reached only by calls that fail for another reason than a slow machine. */
const patient = { deadlineMilliseconds: 120_000 }

let lanes = 0
/** One client on a lane of its own, with a clock and a store that a test can read. */
const makeLane = (given: Partial<PromiseClientOptions> = {}) => {
  lanes += 1
  const lane = `lane-${lanes}`
  let offset = 0
  let saved = { refresh_token: "" }
  const sessionStore = storeWith(({ save }) => ({
    save: (slot, session, replaced) => {
      saved = session
      return save(slot, session, replaced)
    }
  }))
  const options = {
    baseUrl: `${bench.base}/${lane}`,
    source: "web",
    telemetry: false,
    ...patient,
    random: () => 0,
    clock: { now: () => Date.now() + offset, monotonic: () => performance.now() + offset },
    sessionStore,
    ...given,
    throwOnError: false
  } as const
  const client = createMusicClient(options)
  return {
    client,
    telemetry: createTelemetry(client),
    /** Moves this client's clocks. */
    pass: (milliseconds: number) => {
      offset += milliseconds
    },
    /** What the identity service knows of the session that was saved last. */
    family: () => bench.family(saved.refresh_token),
    fault: (kind: FaultKind, path: string) => bench.fault(lane, kind, path),
    attempts: (path: string) => bench.attempts(lane, path),
    headers: (path: string, header: string) => bench.headers(lane, path, header),
    login: async () => {
      // A longer timeout than the client under test has, so that a busy machine does not start with many retries.
      const slow = createMusicClient({ ...options, ...patient, attemptMilliseconds: 60_000 })
      expect(await slow.login(bench.slt())).toMatchObject(ok)
    },
    /** Another client of the same store, lane and clock, as after a restart of the program. */
    restarted: (more: Partial<PromiseClientOptions> = {}) =>
      createMusicClient({ ...options, ...more, throwOnError: false })
  }
}

describe("The promise client", () => {
  it("makes every call of a session, from login to logout", async () => {
    const events: Array<ClientEvent> = []
    const onEvent = (event: ClientEvent) => events.push(event)
    const { client, family, headers, telemetry } = makeLane({ telemetry: true, version: "0.0.0", onEvent })
    expect(await client.status()).toEqual({ state: "logged_out", reason: "not_logged_in" })
    const { value: session } = await client.login(bench.slt())
    expect(session).toMatchObject({ ting: { subscribed: true } })
    expect(session).not.toHaveProperty("access_token")
    const me = { actor: { public_id: "si:deejay" }, org_id: "acme" }
    expect(await client.me()).toMatchObject({ ok: true, value: me })
    expect(await client.subscribe()).toMatchObject(ok)
    const key = newIdempotencyKey()
    const metadata = { requestId: expect.stringMatching(/^web-[0-9a-f-]{36}$/) }
    const first = await client.ting({ ...tingOf(key), key })
    expect(first).toMatchObject({ ok: true, value: { replayed: false }, metadata })
    expect(first.metadata?.rateLimits.length).toBeGreaterThan(0)
    // Again, under the whole key.
    const again = client.request("POST", paths.ting, { body: tingOf(key) })
    expect(await again).toMatchObject({ ok: true, value: { body: { replayed: true } } })
    expect(await client.report({ message })).toMatchObject({ value: { reporter: "si:deejay" } })
    const unsigned = client.report({ message }, { anonymous: true })
    expect(await unsigned).toMatchObject({ value: { reporter: null } })
    expect(await client.iam()).toMatchObject({ value: { app_id: "music" } })
    const { value: version } = await client.version()
    expect(version?.api_versions).toEqual(["v1"])
    const outdated = { type: "outdated", version: "0.0.0", minVersion: version?.min_cli }
    expect(events.filter(({ type }) => type === "outdated")).toEqual([outdated])
    const recorded = telemetry.record("musicfrontendevents", { type: "page.opened", data: {} })
    await client.close()
    expect(telemetry.stats().delivered).toBe(1)
    await expect.poll(() => bench.rows("musicfrontendevents", recorded.value?.id ?? "")).toBe(1)
    expect(await client.logout()).toMatchObject(ok)
    expect(family().status).toBe("revoked")
    expect(await client.session()).toMatchObject({ ok: true, value: null })
    expect(headers(paths.me, "x-music-source")).toEqual(["web"])
    expect(headers(paths.me, "x-music-telemetry")).toEqual(["on"])
    const changes = events.flatMap(({ type }) => (type.startsWith("logged") ? [type] : []))
    expect(changes).toEqual(["logged_in", "logged_out"])
    expect(JSON.stringify(events)).not.toMatch(/oat_|ort_/)
  })

  const faulty: ReadonlyArray<readonly [keyof typeof paths, ReadonlyArray<FaultKind>]> = [
    ["refresh", ["cut-before", "cut-within", "hang-after", "empty-200-after", "html-502-after"]],
    ["ting", ["cut-after", "hang-after", "html-200-after"]],
    ["login", ["html-502-after"]],
    ["report", ["html-502-after"]],
    ["me", ["cut-within"]],
    ["subscribe", ["cut-within"]],
    ["logout", ["cut-within"]]
  ]
  const rows = faulty.flatMap(([call, kinds]) => kinds.map((kind) => [call, kind] as const))
  it.concurrent.each(rows)("makes a call take effect once: %s under %s", async (call, kind) => {
    // Milliseconds, long enough for a slow machine; for calls that hang a shorter time.
    const attemptMilliseconds = kind === "hang-after" ? 2_000 : 20_000
    const { attempts, client, family, fault, headers, login, pass } = makeLane({ attemptMilliseconds })
    if (call !== "login") await login()
    fault(kind, paths[call])
    if (call === "refresh") pass(life)
    const key = newIdempotencyKey()
    if (call === "login") await login()
    else if (call === "ting") expect(await client.ting(tingOf(key))).toMatchObject(ok)
    else if (call === "report") expect(await client.report({ message })).toMatchObject(ok)
    else expect(await client[call === "refresh" ? "me" : call]()).toMatchObject(ok)
    const [status, state] = call === "logout" ? ["revoked", "logged_out"] : ["active", "authenticated"]
    expect(family()).toEqual({ status, rotations: call === "refresh" ? 1 : 0 })
    if (call === "ting") expect(bench.tings(`si:deejay/${key}`)).toBe(1)
    expect(attempts(paths[call])).toBeGreaterThan(1)
    expect(new Set(headers(paths[call], "idempotency-key")).size).toBe(1)
    expect(await client.status()).toMatchObject({ state })
  })

  it("gets an answer that was lost after a restart, minutes later", async () => {
    const { family, fault, login, pass, restarted } = makeLane()
    await login()
    fault("hang-after", paths.refresh)
    pass(life)
    expect(await restarted({ deadlineMilliseconds: 4_000 }).me()).toMatchObject({ ok: false })
    await expect.poll(() => family().rotations).toBe(1)
    bench.advance(300_000)
    expect(await restarted().me()).toMatchObject(ok)
    expect(family()).toEqual({ status: "active", rotations: 1 })
  })

  it("keeps the session of a testing plane apart from that of production", async () => {
    const { client, restarted } = makeLane({ testingKey: bench.testingKey })
    const value = { testing_environment_id: expect.any(String) }
    expect(await client.login("si:deejay")).toMatchObject({ ok: true, value })
    expect(await client.me()).toMatchObject(ok)
    expect(await restarted({ testingKey: null }).status()).toMatchObject({ state: "logged_out" })
  })

  it("sends telemetry again that may have arrived, and it is stored once", async () => {
    const { attempts, fault, telemetry } = makeLane({ telemetry: true })
    const recorded = telemetry.record("musicfrontendanalytics", { type: "seen", data: {} })
    fault("html-502-after", telemetryPath)
    expect(await telemetry.flush()).toMatchObject({ ok: false, error: { retryable: true } })
    expect(telemetry.stats().queued).toBe(1)
    expect(await telemetry.flush()).toMatchObject({ ok: true, value: { delivered: 1 } })
    expect(attempts(telemetryPath)).toBe(2)
    await expect.poll(() => bench.rows("musicfrontendanalytics", recorded.value?.id ?? "")).toBe(1)
  })
})

const clientOn = (lane: string) =>
  Layer.suspend(() =>
    MusicClient.layer({ baseUrl: `${bench.base}/${lane}`, source: "daemon", telemetry: true })
  ).pipe(Layer.provide(FetchHttpClient.layer))

describe("The client as a service", () => {
  it.scopedLive("has typed failures that are caught by tag, with their request id", () =>
    Effect.gen(function* () {
      const client = yield* MusicClient
      const code = yield* client
        .me()
        .pipe(Effect.catchTag("NotLoggedIn", (failure) => Effect.succeed(failure.code)))
      expect(code).toBe("not_logged_in")
      yield* client.login(bench.slt())
      const [me, metadata] = yield* withMetadata(client.me())
      expect(me.actor.public_id).toBe("si:deejay")
      expect(metadata).toMatchObject({ requestId: expect.stringMatching(/^daemon-/) })
      const requestId = yield* client.me({ org: "zenith" }).pipe(
        Effect.as(null),
        Effect.catchTag("Forbidden", (failure) => Effect.succeed(failure.requestId))
      )
      expect(requestId).toMatch(/^daemon-/)
      yield* client.logout()
    }).pipe(Effect.provide(clientOn("typed")))
  )

  it.scopedLive("continues the program's trace, and starts none itself", () =>
    Effect.gen(function* () {
      const client = yield* MusicClient
      yield* client.iam()
      const traced = yield* Effect.withSpan(
        Effect.zipRight(
          client.iam(),
          Effect.map(Effect.currentSpan, ({ traceId }) => traceId)
        ),
        "program"
      )
      const [without, within] = bench.headers("traced", "/api/v1/iam", "traceparent")
      expect(without).toBeNull()
      expect(within).toContain(`00-${traced}-`)
      expect(bench.headers("traced", "/api/v1/iam", "b3")).toEqual([null, null])
    }).pipe(Effect.provide(clientOn("traced")))
  )

  it.live("sends the last telemetry when its scope ends", function* () {
    yield* Effect.scoped(
      Effect.gen(function* () {
        const { telemetry } = yield* MusicClient
        yield* telemetry.record("musicclidaemon", { type: "daemon.stopped" })
      }).pipe(Effect.provide(clientOn("ended")))
    )
    expect(bench.attempts("ended", "/api/v1/telemetry")).toBe(1)
  })
})
