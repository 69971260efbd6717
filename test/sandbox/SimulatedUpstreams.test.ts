/** The settings of the sandbox. */
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import { expect } from "vitest"
import { settingsFor, startUpstreams } from "../../sandbox/SimulatedUpstreams.ts"
import { it } from "../world/Test.ts"

it.scopedLive("The settings of the sandbox name this machine only", function* () {
  const bind = { host: "127.0.0.1", port: 0 }
  const options = { bind, databasePath: ":memory:", logLevel: LogLevel.None } as const
  const settings = settingsFor(yield* startUpstreams(Date.now), options)
  const urls = JSON.stringify(settings).match(/https?:\/\/[^"]+/g) ?? []
  expect(urls.filter((url) => !/^(?:127\.0\.0\.1|localhost)$/.test(new URL(url).hostname))).toEqual([])
  // The variables of this process do not count: no other database.
  expect(Option.isNone(settings.databaseUrl)).toBe(true)
})
