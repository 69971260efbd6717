import { describe, expect, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Backend, Listening } from "../../src/Backend.ts"
import { readSettings } from "../../src/layers/settings/Settings.ts"
import { call } from "../../sandbox/HttpExchange.ts"
import { Settings } from "../../src/services/Settings.ts"
import { freshPath } from "../layers/store/Stores.ts"
import { testApplicationSecret, testWebhookSecret } from "../support/Settings.ts"
import { codeOf, keyed } from "./Calls.ts"

describe("The pull request of a report", () => {
  it.scopedLive("belongs to the configured repository, also while no token files reports there", () =>
    Effect.gen(function* () {
      const { settings } = readSettings({
        MUSIC_BIND: "127.0.0.1:0",
        MUSIC_DATABASE_PATH: yield* freshPath,
        MUSIC_IAM_URL: "http://127.0.0.1:1",
        MUSIC_TING_URL: "http://127.0.0.1:1",
        MUSIC_IAM_APP_SECRET: testApplicationSecret,
        MUSIC_IAM_WEBHOOK_SECRET: testWebhookSecret,
        MUSIC_GITHUB_REPOSITORY: "harbor/music",
        MUSIC_LOG_LEVEL: "none"
      })
      const context = yield* Layer.build(Layer.provide(Backend, Layer.succeed(Settings, settings)))
      const { url } = Context.get(context, Listening)
      const report = (repository: string) =>
        call(`${url}/api/v1/reports`, {
          method: "POST",
          headers: keyed(),
          body: {
            message: "The player stops after a seek.",
            pr: `https://github.com/${repository}/pull/7`
          }
        })
      expect((yield* report("harbor/music")).status).toBe(200)
      expect(codeOf(yield* report("elsewhere/other"))).toBe("invalid_input")
    })
  )
})
