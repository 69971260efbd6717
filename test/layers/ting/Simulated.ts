/** The `Ting` port over HTTP. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { parts } from "../../../src/Backend.ts"
import { HttpTing } from "../../../src/layers/ting/HttpTing.ts"
import { Settings } from "../../../src/services/Settings.ts"
import { Ting } from "../../../src/services/Ting.ts"
import { type SettingsOverrides, testSettings } from "../../world/Settings.ts"

export const tingOver = (url: string, overrides: SettingsOverrides["ting"] = {}) =>
  Layer.build(
    HttpTing.pipe(
      Layer.provide(parts.transport),
      Layer.provide(Layer.succeed(Settings, testSettings({ ting: { url, ...overrides } })))
    )
  ).pipe(Effect.map((context) => Context.get(context, Ting)))
