/** The tracker over HTTP, and a simulated one with one repository. They end with the test. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { startTracker } from "../../../sandbox/upstreams/Tracker.ts"
import { parts } from "../../../src/Backend.ts"
import { Settings, type SettingsValues } from "../../../src/services/Settings.ts"
import { Tracker } from "../../../src/services/Tracker.ts"
import { testSettings } from "../../world/Settings.ts"
import { simulated } from "../upstream/Simulated.ts"

export const token = "github_pat_A1b2C3d4E5f6G7h8I9j0"
export const repository = "harbor/music"
export const issuesPath = `/repos/${repository}/issues`

export const settingsAt = (url: string) =>
  testSettings({
    tracker: Option.some({ token: Redacted.make(token), owner: "harbor", repository: "music", url })
  })

export const trackerOf = (settings: SettingsValues) =>
  Layer.build(
    Layer.provide(parts.tracker, Layer.merge(parts.transport, Layer.succeed(Settings, settings)))
  ).pipe(Effect.map((context) => Context.get(context, Tracker)))

export const simulatedTracker = () =>
  Effect.map(
    simulated((now) =>
      startTracker({
        now,
        repositories: [repository],
        tokens: [{ token, login: "harbor-bot", rights: "write" }]
      })
    ),
    (github) => ({ github, settings: settingsAt(github.url) })
  )
