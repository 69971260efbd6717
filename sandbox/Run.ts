/** The sandbox: the simulated upstreams and the real server, on loopback, moving in time together. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as LogLevel from "effect/LogLevel"
import { Backend, Listening } from "../src/Backend.ts"
import { Settings, type SettingsValues } from "../src/services/Settings.ts"
import { makeOffsetClock, type OffsetClock } from "./OffsetClock.ts"
import { makeWorld, settingsFor, type World } from "./World.ts"

export interface Sandbox {
  readonly world: World
  /** Base address of the server, without a trailing slash. */
  readonly base: string
  readonly clock: OffsetClock
  readonly databasePath: string
}

/** Starts everything on a scratch database; all of it is gone with the scope. */
export const startSandbox = (options: {
  /** 0: any free port. */
  readonly port: number
  readonly logLevel: LogLevel.LogLevel
  /** Instead of the default, for programs that play minutes in a moment. */
  readonly iamCallsPerMinute?: number
}) =>
  Effect.gen(function* () {
    const files = yield* FileSystem.FileSystem
    const clock = makeOffsetClock()
    const world = yield* makeWorld(clock.now)
    const folder = yield* files.makeTempDirectoryScoped({ prefix: "music-sandbox-" })
    const databasePath = `${folder}/music.sqlite`
    const defaults = settingsFor(world, {
      bind: { host: "127.0.0.1", port: options.port },
      databasePath,
      logLevel: options.logLevel,
      logFormat: "json"
    })
    const settings: SettingsValues = {
      ...defaults,
      iam: { ...defaults.iam, callsPerMinute: options.iamCallsPerMinute ?? defaults.iam.callsPerMinute }
    }
    const context = yield* Layer.build(
      Backend.pipe(Layer.provide(Layer.succeed(Settings, settings)), Layer.provide(clock.layer))
    )
    const { url } = yield* Effect.provide(Listening, context)
    // IAM delivers its webhooks to where the server really listens.
    world.iam.world.setWebhook("production", "music", { url: `${url}/webhook/` })
    const sandbox: Sandbox = { world, base: url, clock, databasePath }
    return sandbox
  })
