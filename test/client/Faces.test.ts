/** The promise client and the Effect client against the real server. */
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import { afterAll, beforeAll, describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { MusicClient } from "../../client/effect.ts"
import * as Client from "../../client/index.ts"
import * as Telemetry from "../../client/telemetry.ts"
import { scenarios } from "./suite/Scenarios.ts"
import { startTestBench, type TestBench } from "./support/TestBench.ts"

let bench: TestBench
beforeAll(async () => {
  bench = await startTestBench()
})
afterAll(() => bench.close())

it.each(scenarios)("The promise client: $name", ({ run }) => run(bench, { ...Client, ...Telemetry }))

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
      yield* client.login(bench.commands.slt())
      const me = yield* client.me()
      expect(me.actor.public_id).toBe("si:deejay")
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
      const [without, within] = bench.commands.headers("traced", "/api/v1/iam", "traceparent")
      expect(without).toBeNull()
      expect(within).toContain(`00-${traced}-`)
      expect(bench.commands.headers("traced", "/api/v1/iam", "b3")).toEqual([null, null])
    }).pipe(Effect.provide(clientOn("traced")))
  )

  it.live("sends the last telemetry when its scope ends", function* () {
    yield* Effect.scoped(
      Effect.gen(function* () {
        const { telemetry } = yield* MusicClient
        yield* telemetry.record("musicclidaemon", { type: "daemon.stopped" })
      }).pipe(Effect.provide(clientOn("ended")))
    )
    expect(bench.commands.attempts("ended", "/api/v1/telemetry")).toBe(1)
  })
})
