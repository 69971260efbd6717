/** The sandbox: the simulated upstreams and the real server on loopback, under one clock. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as LogLevel from "effect/LogLevel"
import { Backend, Listening } from "../src/Backend.ts"
import { AddedToDocs, type DocsAddition } from "../src/http/docs/DocsAddition.ts"
import { Settings, type SettingsValues } from "../src/services/Settings.ts"
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
  /** Added to the documentation page; its forms then may send telemetry, too. */
  readonly docs?: DocsAddition
  /** Receives the server's spans, as OTLP in JSON. */
  readonly tracesUrl?: string
}) =>
  Effect.gen(function* () {
    const files = yield* FileSystem.FileSystem
    const clock = makeOffsetClock()
    const world = yield* startUpstreams(clock.now)
    const folder = yield* files.makeTempDirectoryScoped({ prefix: "music-sandbox-" })
    const databasePath = `${folder}/music.sqlite`
    const defaults = settingsFor(
      world,
      {
        bind: { host: "127.0.0.1", port: options.port },
        databasePath,
        logLevel: options.logLevel,
        logFormat: "json"
      },
      options.tracesUrl === undefined
        ? {}
        : {
            OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: options.tracesUrl,
            OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: "http/json"
          }
    )
    const webOrigins = [...defaults.webOrigins]
    const settings: SettingsValues = {
      ...defaults,
      webOrigins,
      iam: { ...defaults.iam, callsPerMinute: options.iamCallsPerMinute ?? defaults.iam.callsPerMinute }
    }
    const context = yield* Layer.build(
      Backend.pipe(
        Layer.provide(Layer.succeed(Settings, settings)),
        Layer.provide(Layer.succeed(AddedToDocs, options.docs)),
        Layer.provide(clock.layer)
      )
    )
    const { url } = yield* Effect.provide(Listening, context)
    // The port is known only now.
    if (options.docs !== undefined) webOrigins.push(url, `http://localhost:${new URL(url).port}`)
    world.iam.controls.setWebhook("production", "music", { url: `${url}/webhook/` })
    const sandbox: Sandbox = { world, base: url, clock, databasePath }
    return sandbox
  })
