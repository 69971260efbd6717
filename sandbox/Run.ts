/** The sandbox: the simulated upstreams and the real server on loopback, under one clock. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as LogLevel from "effect/LogLevel"
import { Listening, makeBackend, parts } from "../src/Backend.ts"
import { ShownOnDocs } from "../src/http/DocsPage.ts"
import { noSpans, sendSpans } from "../src/layers/observability/Tracing.ts"
import { Settings, type SettingsValues } from "../src/services/Settings.ts"
import { findFreePort } from "./FreePort.ts"
import { liveDocs } from "./LiveDocs.ts"
import { makeOffsetClock, type OffsetClock } from "./OffsetClock.ts"
import { startUpstreams, settingsFor, type SimulatedUpstreams } from "./SimulatedUpstreams.ts"

export interface Sandbox {
  readonly world: SimulatedUpstreams
  /** Base address of the server, without a trailing slash. */
  readonly base: string
  readonly clock: OffsetClock
  readonly databasePath: string
}

/** Starts everything on a temporary database. All of it ends with the scope. */
export const startSandbox = (options: {
  /** 0 selects any free port. */
  readonly port: number
  readonly logLevel: LogLevel.LogLevel
  /** Replaces the default, for tests that advance the clock by minutes at once. */
  readonly iamCallsPerMinute?: number
  /** The documentation page has live values, and may send telemetry, too. */
  readonly hasLiveDocs?: boolean
  /** Receives the server's spans, as OTLP in JSON. */
  readonly tracesUrl?: string
}) =>
  Effect.gen(function* () {
    const files = yield* FileSystem.FileSystem
    const clock = makeOffsetClock()
    const world = yield* startUpstreams(clock.now)
    const folder = yield* files.makeTempDirectoryScoped({ prefix: "music-sandbox-" })
    const databasePath = `${folder}/music.sqlite`
    const { hasLiveDocs = false } = options
    /** The page that sends calls has the server's own origin, which the settings name before the server listens. */
    const port = options.port === 0 && hasLiveDocs ? yield* findFreePort : options.port
    const defaults = settingsFor(world, {
      bind: { host: "127.0.0.1", port },
      databasePath,
      logLevel: options.logLevel
    })
    const { iam, webOrigins } = defaults
    const settings: SettingsValues = {
      ...defaults,
      webOrigins: hasLiveDocs
        ? [...webOrigins, `http://127.0.0.1:${port}`, `http://localhost:${port}`]
        : webOrigins,
      // The data goes with the sandbox, and a slow fault would hold its end for as long.
      shutdownGraceSeconds: 1,
      iam: { ...iam, callsPerMinute: options.iamCallsPerMinute ?? iam.callsPerMinute }
    }
    const context = yield* Layer.build(
      makeBackend({
        ...parts,
        tracing: options.tracesUrl === undefined ? noSpans : sendSpans(options.tracesUrl)
      }).pipe(
        Layer.provide(Layer.succeed(Settings, settings)),
        Layer.provide(
          Layer.succeed(
            ShownOnDocs,
            hasLiveDocs ? liveDocs(world, `http://127.0.0.1:${port}`, clock.now) : undefined
          )
        ),
        Layer.provide(clock.layer)
      )
    )
    const { url } = yield* Effect.provide(Listening, context)
    world.iam.controls.setWebhook("production", "music", { url: `${url}/webhook/` })
    const sandbox: Sandbox = { world, base: url, clock, databasePath }
    return sandbox
  })
