/** A disk that is really full: the system refuses to let a file of the process grow. */
import { statSync } from "node:fs"
import { join } from "node:path"
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import { vi } from "vitest"
import { call } from "../../src/sandbox/Exchange.ts"
import { freshFolder, scalar } from "./Files.ts"
import { type Bundle, bundleServer, serve, stop } from "./Processes.ts"
import {
  eventually,
  everyCall,
  healthy,
  issues,
  keptWhole,
  type Look,
  signIn,
  telemetry,
  unwritable,
  webhook
} from "./Server.ts"

// Generous for a busy machine: processes start, and outages last.
vi.setConfig({ testTimeout: 90_000 })

let bundle: Bundle
beforeAll(async () => {
  bundle = await bundleServer()
})
afterAll(() => bundle.remove())

const lookInto =
  (path: string): Look =>
  (statement) =>
    Effect.orDie(Effect.map(scalar(path, statement), Number))

/** Of 512 bytes: what a new database needs, and a little more. */
const limit = "ulimit -f 1400;"

describe("A full disk", () => {
  it.scopedLive(
    "refuses what cannot be kept, loses nothing that was, and a start with room brings all of it",
    () =>
      Effect.gen(function* () {
        const path = join(yield* freshFolder, "music.sqlite")
        const environment = {
          MUSIC_DATABASE_PATH: path,
          MUSIC_REQUEST_DEADLINE_SECONDS: "5",
          MUSIC_SHUTDOWN_GRACE_SECONDS: "7"
        }
        const first = yield* serve(bundle.file, environment, { shell: limit })
        const { world } = first
        const signed = yield* signIn(first)
        deepStrictEqual((yield* everyCall(first, signed)).round, healthy)
        yield* eventually("an issue", () => issues({ world }) === 1)
        let events = 1
        let answer = yield* telemetry(first)
        for (; answer.status === 204 && events < 100; answer = yield* telemetry(first)) events += 1
        assert.strictEqual(answer.status, 503)
        // What is smaller may still fit for a while.
        let kept = yield* webhook(first)
        for (let at = 0; kept.status === 200 && at < 100; at += 1) kept = yield* webhook(first)
        yield* Effect.repeat(call(`${first.base}/readyz`), {
          until: ({ status }) => status === 503,
          times: 100
        })

        const { round, slowest } = yield* everyCall(first, signed)
        deepStrictEqual(round, unwritable)
        assert.isBelow(slowest, 2_000)
        assert.match(first.server.output(), /Database unavailable.*(?:SQLITE_IOERR|SQLITE_FULL)/)
        const { code } = yield* stop(first.server)
        assert.strictEqual(code, 0)
        assert.isBelow(statSync(path).size, 1_400 * 512 + 1)
        yield* keptWhole(lookInto(path), { reports: 1, events })

        const second = yield* serve(bundle.file, environment, { world })
        deepStrictEqual((yield* everyCall(second, signed)).round, healthy)
        yield* eventually("two issues", () => issues({ world }) === 2)
        yield* eventually(
          "every event shipped",
          () => world.tables.rows("musicclidaemon").length === events + 1
        )
        yield* keptWhole(lookInto(path), { reports: 2, events: events + 1 })
      })
  )
})
