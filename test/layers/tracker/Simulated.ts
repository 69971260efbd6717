/** A simulated tracker with one repository, closed with the test, and the settings that use it. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type { Now } from "../../../sandbox/upstreams/Simulator.ts"
import { startTracker } from "../../../sandbox/upstreams/Tracker.ts"
import { testSettings } from "../../support/Settings.ts"
import { simulated } from "../upstream/Simulated.ts"

export const token = "github_pat_A1b2C3d4E5f6G7h8I9j0"
export const repository = "harbor/music"
export const issuesPath = `/repos/${repository}/issues`

/** On the clock of the test, unless `now` is another one. */
export const simulatedTracker = (now?: Now) =>
  Effect.map(
    simulated((testNow) =>
      startTracker({
        now: now ?? testNow,
        repositories: [repository],
        tokens: [{ token, login: "harbor-bot", rights: "write" }]
      })
    ),
    (github) => ({
      github,
      settings: testSettings({
        tracker: Option.some({
          token: Redacted.make(token),
          owner: "harbor",
          repository: "music",
          url: github.url,
          reconcileSeconds: [5, 15, 40]
        })
      })
    })
  )
