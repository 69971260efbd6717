/** The promise client and the Effect client against the real server. */
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import { Context, Effect, Exit, Layer } from "effect"
import { afterAll, beforeAll, describe, expect } from "vitest"
import { MusicClient, withMetadata } from "../../client/effect.ts"
import { type ClientEvent, createMusicClient, newIdempotencyKey } from "../../client/index.ts"
import { createTelemetry } from "../../client/telemetry.ts"
import { it } from "../world/Test.ts"
import { defaults, storeWith, systemError } from "./support/ClientWorld.ts"
import { makeService, never } from "./support/Service.ts"
import { startTestBench, type TestBench } from "./support/TestBench.ts"

const message = "Playback stops after a seek near the end of a track."
const ok = { ok: true }

let bench: TestBench
beforeAll(async () => {
  bench = await startTestBench()
})
afterAll(() => bench.close())

it("The promise client makes every call of a session, from login to logout", async () => {
  const events: Array<ClientEvent> = []
  const client = createMusicClient({
    baseUrl: `${bench.base}/walk`,
    source: "web",
    telemetry: true,
    version: "0.0.0",
    deadlineMilliseconds: 120_000,
    onEvent: (event) => events.push(event)
  })
  const telemetry = createTelemetry(client)
  expect(await client.status()).toEqual({ state: "logged_out", reason: "not_logged_in" })
  const { value: session } = await client.login(bench.slt())
  expect(session).toMatchObject({ ting: { subscribed: true } })
  expect(session).not.toHaveProperty("access_token")
  const me = { actor: { public_id: "si:deejay" }, org_id: "acme" }
  expect(await client.me()).toMatchObject({ ok: true, value: me })
  expect(await client.subscribe()).toMatchObject(ok)
  const ting = { type: "music.trigger.fired", key: newIdempotencyKey(), data: {} }
  const metadata = { requestId: expect.stringMatching(/^web-[0-9a-f-]{36}$/) }
  const first = await client.ting(ting)
  expect(first).toMatchObject({ ok: true, value: { replayed: false }, metadata })
  expect(first.metadata?.rateLimits.length).toBeGreaterThan(0)
  // Again, under the whole key.
  const body = { ...ting, key: `si:deejay/${ting.key}` }
  const again = client.request("POST", "/api/v1/tings", { body })
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
  expect(await client.logout()).toMatchObject({ ok: true, value: { revoked: true } })
  expect(await client.session()).toMatchObject({ ok: true, value: null })
  for (const [name, value] of Object.entries({ "x-music-source": "web", "x-music-telemetry": "on" }))
    expect(bench.headers("walk", "/api/v1/auth/me", name)).toEqual([value])
  const changes = events.flatMap(({ type }) => (type.startsWith("logged") ? [type] : []))
  expect(changes).toEqual(["logged_in", "logged_out"])
  expect(JSON.stringify(events)).not.toMatch(/oat_|ort_/)
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

it.scopedLive("A call as an effect has its own signal and content type, and no cause in JSON", function* () {
  const { answers, fetch, requests } = makeService()
  const sessionStore = storeWith(() => ({ load: () => Promise.reject(systemError("EACCES")) }))
  const layer = Layer.provide(MusicClient.layer({ ...defaults, sessionStore }), FetchHttpClient.layer)
  const context = yield* Effect.provideService(Layer.build(layer), FetchHttpClient.Fetch, fetch)
  const client = Context.get(context, MusicClient)
  const headers = { "content-type": "application/merge-patch+json" }
  yield* client.request("PATCH", "/x", { session: "none", headers, body: {} })
  expect(Object.fromEntries(requests[0]?.headers ?? [])).toMatchObject(headers)
  answers.version = never
  const isLeft = <A, E>(call: Effect.Effect<A, E>) => Effect.map(Effect.exit(call), Exit.isInterrupted)
  expect(yield* isLeft(client.version({ signal: AbortSignal.timeout(50) }))).toBe(true)
  expect(yield* isLeft(client.status({ signal: AbortSignal.abort() }))).toBe(true)
  const wrong = yield* Effect.flip(client.version({ signal: {} as never }))
  expect(wrong).toMatchObject({ _tag: "InvalidInput", details: { fields: [{ path: "signal" }] } })
  const failure = yield* Effect.flip(client.me())
  expect(failure).toMatchObject({ _tag: "StoreFailed", cause: systemError("EACCES") })
  expect(JSON.parse(JSON.stringify(failure))).not.toHaveProperty("cause")
})
