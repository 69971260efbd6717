import { expect } from "vitest"
import { it } from "../world/Test.ts"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import { settingsFor, startUpstreams, upstreamEnvironment } from "../../sandbox/SimulatedUpstreams.ts"

it.scopedLive("The settings of the sandbox name this machine only", function* () {
  const upstreams = yield* startUpstreams(Date.now)
  const addresses = Object.entries(upstreamEnvironment(upstreams)).filter(([name]) => /_URL$/.test(name))
  expect(addresses.map(([name]) => name)).toEqual([
    "MUSIC_IAM_URL",
    "MUSIC_TING_URL",
    "MUSIC_TABLES_URL",
    "MUSIC_GITHUB_URL"
  ])
  const settings = settingsFor(upstreams, {
    bind: { host: "127.0.0.1", port: 0 },
    databasePath: ":memory:",
    logLevel: LogLevel.None,
    logFormat: "json"
  })
  const tracker = Option.getOrThrow(settings.tracker)
  const tables = Option.getOrThrow(settings.tables)
  for (const url of [settings.iam.url, settings.ting.url, tables.url, tracker.url])
    expect(new URL(url).hostname).toBe("127.0.0.1")
  // The variables of this process do not count: no collector, proxy or other database.
  const { databaseUrl, openTelemetry, outboundProxy } = settings
  for (const { _tag } of [databaseUrl, outboundProxy.http, outboundProxy.https]) expect(_tag).toBe("None")
  for (const { _tag } of [openTelemetry.traces, openTelemetry.metrics]) expect(_tag).toBe("None")
})
