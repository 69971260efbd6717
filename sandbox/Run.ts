/** The sandbox: the simulated upstreams and the real server on loopback, under one clock. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as LogLevel from "effect/LogLevel"
import { Listening, makeBackend, parts } from "../src/Backend.ts"
import { ShownOnDocs } from "../src/http/DocsPage.ts"
import { noSpans } from "../src/layers/observability/Tracing.ts"
import { Settings, type SettingsValues } from "../src/services/Settings.ts"
import { watchDeliveries } from "./console/Deliveries.ts"
import { liveDocs } from "./LiveDocs.ts"
import { makeOffsetClock, type OffsetClock } from "./OffsetClock.ts"
import { startUpstreams, settingsFor, type SimulatedUpstreams } from "./SimulatedUpstreams.ts"

type OnReport = (traceId: string, report: string) => void

export interface Sandbox {
  readonly world: SimulatedUpstreams
  /** Base address of the server, without a trailing slash. */
  readonly base: string
  readonly clock: OffsetClock
  readonly databasePath: string
  /** Tokens and families that the documentation page made for itself, which are no caller's. */
  readonly hidden: ReadonlySet<string>
  /** Calls the listener with each trace of a background delivery that handles a report. */
  readonly onReport: (listener: OnReport) => void
}

export interface SandboxOptions {
  /** 0 selects any free port. */
  readonly port: number
  /** The port of the first upstream; the others follow it. Default: any free ports. */
  readonly upstreamPort?: number | undefined
  readonly logLevel: LogLevel.LogLevel
  /** Replaces the default, for tests that advance the clock by minutes at once. */
  readonly iamCallsPerMinute?: number
  /** The documentation page has live values, and may send telemetry, too; and deliveries are watched. */
  readonly isShown?: boolean
}

/** Starts everything on a temporary database. All of it ends with the scope. */
export const startSandbox = (options: SandboxOptions) =>
  Effect.gen(function* () {
    const files = yield* FileSystem.FileSystem
    const clock = makeOffsetClock()
    const world = yield* startUpstreams(clock.now, options.upstreamPort)
    const folder = yield* files.makeTempDirectoryScoped({ prefix: "music-sandbox-" })
    const databasePath = `${folder}/music.sqlite`
    const { isShown = false, logLevel, port } = options
    const bind = { host: "127.0.0.1", port }
    const { iam, webOrigins, ...defaults } = settingsFor(world, { bind, databasePath, logLevel })
    const origins = [...webOrigins]
    const settings: SettingsValues = {
      ...defaults,
      webOrigins: origins,
      // The data goes with the sandbox, and a slow fault would hold its end for as long.
      shutdownGraceSeconds: 1,
      iam: { ...iam, callsPerMinute: options.iamCallsPerMinute ?? iam.callsPerMinute }
    }
    const hidden = new Set<string>()
    const listeners: Array<OnReport> = []
    const tracing = watchDeliveries((traceId, report) => {
      for (const listener of listeners) listener(traceId, report)
    })
    let base = ""
    const docs = isShown ? liveDocs(world, () => base, clock.now, hidden) : undefined
    const context = yield* Layer.build(
      makeBackend({ ...parts, tracing: isShown ? tracing : noSpans }).pipe(
        Layer.provide(Layer.succeed(Settings, settings)),
        Layer.provide(Layer.succeed(ShownOnDocs, docs)),
        Layer.provide(clock.layer)
      )
    )
    const { url } = yield* Effect.provide(Listening, context)
    base = url
    // The documentation page, which sends calls, has the server's own origin.
    if (isShown) origins.push(url, url.replace("127.0.0.1", "localhost"))
    world.iam.controls.setWebhook("production", "music", { url: `${url}/webhook/` })
    const onReport = (listener: OnReport) => void listeners.push(listener)
    const sandbox: Sandbox = { world, base: url, clock, databasePath, hidden, onReport }
    return sandbox
  })
