/** The exchange behind a success: the request id and the quotas of the call itself. */
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { describe, expect, it } from "vitest"
import { type ClientEvent, MusicClient, withMetadata } from "../../client/effect.ts"
import { defaults, json, life, recordingService, startClient } from "./support/RecordingService.ts"
import { until } from "../support/Waiting.ts"

const none = { requestId: null, rateLimits: [] }
const me = {
  authenticated: true,
  actor: { type: "silicon", public_id: "si:deejay" },
  org_id: "acme",
  membership_id: "m",
  session_id: "1",
  scopes: [],
  ting_ready: true,
  testing_environment_id: null
}
const pair = (generation: number) => ({
  access_token: `oat_${generation}`,
  refresh_token: `ort_${generation}`,
  expires_in: 1800,
  scope: "self.identity.read",
  actor: me.actor,
  org_id: "acme",
  org_ids: ["acme"],
  testing_environment_id: null
})
const quotas = (policy: string) => ({ "x-request-id": `id-of-${policy}`, ratelimit: `"${policy}";r=1;t=2` })
const ofMe = { requestId: "id-of-me", rateLimits: [{ policy: "me", remaining: 1, resetSeconds: 2 }] }

describe("The metadata of a success", () => {
  it("are the service's request id and all quotas", async () => {
    const { answers, client } = startClient()
    answers.healthz = () =>
      json(
        { status: "ok", service: "music-backend", version: "1.0.0" },
        { "x-request-id": "the-id-1", ratelimit: '"address";r=1;t=2, "credential";r=30;t=4, odd' }
      )
    expect(await client.healthz()).toMatchObject({
      ok: true,
      metadata: {
        requestId: "the-id-1",
        rateLimits: [
          { policy: "address", remaining: 1, resetSeconds: 2 },
          { policy: "credential", remaining: 30, resetSeconds: 4 }
        ]
      }
    })
  })

  it("have the id that was sent, when the answer has none", async () => {
    const { client, requests } = startClient()
    await client.login("oac_1")
    const result = await client.me()
    expect(result).toMatchObject({
      ok: true,
      metadata: { requestId: requests[1]?.headers.get("x-request-id"), rateLimits: [] }
    })
  })

  it("have no id when nothing was sent", async () => {
    const { client } = startClient({ telemetry: true })
    await client.login("oac_1")
    expect(await client.session()).toMatchObject({ ok: true, metadata: none })
    expect(await client.login("oac_1")).toMatchObject({ ok: true, metadata: none })
    expect(client.telemetry.record("musicclidaemon", {})).toMatchObject({ ok: true, metadata: none })
    await client.telemetry.flush()
    expect(await client.telemetry.flush()).toMatchObject({ ok: true, metadata: none })
  })

  it("are those of the call, not of the refresh before it", async () => {
    const { answers, client, pass } = startClient()
    await client.login("oac_1")
    answers.refresh = () => json(pair(2), quotas("refresh"))
    answers.me = () => json(me, quotas("me"))
    pass(life)
    expect(await client.me()).toMatchObject({ ok: true, metadata: ofMe })
  })

  it("are those of the attempt that succeeded", async () => {
    const { answers, client } = startClient()
    await client.login("oac_1")
    let refused = false
    answers.me = () => {
      if (refused) return json(me, quotas("me"))
      refused = true
      return json(
        { error: { code: "unauthenticated", message: "m", hint: "h", retryable: false } },
        quotas("refused"),
        401
      )
    }
    expect(await client.me()).toMatchObject({ ok: true, metadata: ofMe })
  })

  it("of calls that run at once are not mixed", async () => {
    const { client, requests } = startClient()
    const results = await Promise.all(
      Array.from({ length: 10 }, (_, index) => client.request("GET", `/x/${index}`))
    )
    results.forEach((result, index) => {
      const sent = requests.find(({ url }) => url.endsWith(`/x/${index}`))
      expect(result).toMatchObject({ ok: true, metadata: { requestId: sent?.headers.get("x-request-id") } })
    })
  })
})

describe("withMetadata", () => {
  it("has the exchange of the call, also when a refresh ends later", async () => {
    const { answers, fetch } = recordingService()
    let land: (answer: Response) => void = () => undefined
    answers.login = () => json({ ...pair(1), expires_in: 1, ting: { subscribed: true } })
    answers.refresh = () =>
      new Promise((resolve) => {
        land = resolve
      })
    answers.me = () => json(me, quotas("me"))
    let refreshed = 0
    const onEvent = ({ type }: ClientEvent) => {
      if (type === "refreshed") refreshed += 1
    }
    const layer = MusicClient.layer({ ...defaults, onEvent }).pipe(
      Layer.provide(FetchHttpClient.layer.pipe(Layer.provide(Layer.succeed(FetchHttpClient.Fetch, fetch))))
    )
    const [, metadata] = await Effect.gen(function* () {
      const client = yield* MusicClient
      yield* client.login("oac_1")
      yield* Effect.sleep(1_000)
      return yield* withMetadata(
        Effect.gen(function* () {
          // The access token has expired, and the call goes on with it after a third of its time.
          yield* client.request("GET", "/me", { deadlineMilliseconds: 3_000 })
          land(json(pair(2), quotas("refresh")))
          yield* until(() => refreshed === 1)
        })
      )
    }).pipe(Effect.provide(layer), Effect.runPromise)
    expect(metadata).toEqual(ofMe)
  })

  it("adds them to the value of a call of the Effect client", async () => {
    const { answers, fetch } = recordingService()
    answers.me = () => json(me, quotas("me"))
    const layer = MusicClient.layer(defaults).pipe(
      Layer.provide(FetchHttpClient.layer.pipe(Layer.provide(Layer.succeed(FetchHttpClient.Fetch, fetch))))
    )
    const [first, second, third] = await Effect.gen(function* () {
      const client = yield* MusicClient
      yield* client.login("oac_1")
      return [
        yield* withMetadata(client.me()),
        yield* withMetadata(client.session),
        yield* withMetadata(client.status())
      ] as const
    }).pipe(Effect.provide(layer), Effect.runPromise)
    expect(first).toEqual([me, ofMe])
    expect(second[1]).toEqual(none)
    expect(third[1]).toEqual(ofMe)
  })
})
