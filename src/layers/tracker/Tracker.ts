/** The `Tracker` port: GitHub, or off. */
import { HttpClient } from "@effect/platform/HttpClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { Settings } from "../../services/Settings.ts"
import { Tracker, type TrackerService } from "../../services/Tracker.ts"
import { NotExecuted } from "../../services/UpstreamFailure.ts"
import { makeGitHub } from "./GitHub.ts"

const notConfigured = Effect.fail(new NotExecuted({ dependency: "tracker", reason: "not configured" }))

const trackerOff: TrackerService = {
  enabled: false,
  file: () => notConfigured,
  findByMarker: () => notConfigured,
  closeDuplicate: () => notConfigured,
  trouble: Effect.succeed(Option.none())
}

/** GitHub when a token is set (`MUSIC_GITHUB_TOKEN`). Without one nothing is filed and nothing is degraded. */
export const TrackerFromSettings: Layer.Layer<Tracker, never, Settings | HttpClient> = Layer.effect(
  Tracker,
  Effect.gen(function* () {
    const { tracker } = yield* Settings
    const client = yield* HttpClient
    return Option.match(tracker, {
      onNone: () => trackerOff,
      onSome: (target) => makeGitHub(client, target)
    })
  })
)
