import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { Settings } from "../../services/Settings.ts"
import { Tracker } from "../../services/Tracker.ts"
import { NotExecuted } from "../../services/UpstreamFailure.ts"
import { makeGitHub } from "./GitHub.ts"

const off = Effect.fail(new NotExecuted({ dependency: "tracker", reason: "not configured" }))

/** No tracker: nothing is filed and nothing is wrong. */
export const TrackerOff: Layer.Layer<Tracker> = Layer.succeed(Tracker, {
  enabled: false,
  file: () => off,
  findByMarker: () => off,
  closeDuplicate: () => off,
  trouble: Effect.succeed(Option.none())
})

/** GitHub when a token is set (`MUSIC_GITHUB_TOKEN`), else off. */
export const TrackerFromSettings: Layer.Layer<Tracker, never, Settings> = Layer.unwrapEffect(
  Effect.map(Settings, ({ tracker }) =>
    Option.match(tracker, {
      onNone: () => TrackerOff,
      onSome: (target) => Layer.effect(Tracker, makeGitHub(target))
    })
  )
)
