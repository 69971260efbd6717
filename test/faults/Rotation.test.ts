/** The steps of docs/operations.md, "Rotate a secret", with servers as processes. */
import { randomUUID } from "node:crypto"
import * as Effect from "effect/Effect"
import { beforeAll, describe, expect } from "vitest"
import { call } from "../../sandbox/HttpExchange.ts"
import { mintSlt } from "../../sandbox/SimulatedUpstreams.ts"
import { production } from "../../sandbox/upstreams/Iam.ts"
import { postgres, rawQuery } from "../layers/store/Stores.ts"
import { eventually } from "../world/Waiting.ts"
import { bundleBefore, type Served, serve, stop, upstreams } from "../world/Fleet.ts"
import { it } from "../world/Test.ts"
import { newPath } from "./Databases.ts"
import { filed, login, report, shipped, signIn, telemetry, webhook } from "./Server.ts"

beforeAll(bundleBefore)

const statusOf = <E>(exchange: Effect.Effect<{ readonly status: number }, E>) =>
  Effect.map(exchange, ({ status }) => status)

/** Upstreams, and servers with them on one database of their own. */
const place = (kind: "SQLite" | "PostgreSQL") =>
  Effect.gen(function* () {
    const world = yield* upstreams
    const database =
      kind === "SQLite"
        ? { MUSIC_DATABASE_PATH: yield* newPath }
        : { MUSIC_DATABASE_URL: yield* postgres.emptyPath }
    return { world, database, started: (more = {}) => serve({ ...database, ...more }, { world }) }
  })

describe("A secret that is rotated", () => {
  it.scopedLive(
    "of webhooks: a server with both versions accepts every delivery, one without refuses",
    function* () {
      const { started, world } = yield* place("PostgreSQL")
      const { webhookKeyVersion: version, webhookSecret } = world.seeded.production
      const secret = randomUUID()
      const renewed = {
        MUSIC_IAM_WEBHOOK_SECRET: secret,
        MUSIC_IAM_WEBHOOK_KEY_VERSION: String(version + 1)
      }
      const previous = {
        MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET: webhookSecret,
        MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION: String(version)
      }
      const [old, both] = [yield* started(), yield* started({ ...renewed, ...previous })]
      const deliver = (...servers: ReadonlyArray<Served>) =>
        Effect.forEach(servers, (server) => statusOf(webhook(server)))
      expect(yield* deliver(old, both)).toEqual([200, 200])
      world.iam.controls.setWebhook(production, "music", { url: `${both.base}/webhook/`, secret })
      expect(yield* deliver(old, both, yield* started(renewed))).toEqual([401, 200, 200])
    }
  )

  it.scopedLive(
    "of the application: what is refused spends nothing, and succeeds after the restart",
    function* () {
      const { started, world } = yield* place("SQLite")
      const before = yield* started()
      const headers = yield* signIn(before)
      const slt = mintSlt(world)
      const key = { "idempotency-key": "the-login-0123456789" }
      const me = ({ base }: Served) => statusOf(call(`${base}/api/v1/auth/me`, { headers }))
      const renewed = world.iam.controls.rotateSecret(production, "music")
      const refused = yield* login(before, slt, key)
      expect([refused.status, JSON.parse(refused.text).error.code]).toEqual([502, "dependency_misconfigured"])
      expect([yield* me(before), yield* statusOf(report(before))]).toEqual([502, 200])
      yield* stop(before.server)
      const after = yield* started({ MUSIC_IAM_APP_SECRET: renewed })
      expect([yield* statusOf(login(after, slt, key)), yield* me(after)]).toEqual([200, 200])
    }
  )

  it.scopedLive(
    "of a table: its events are accepted meanwhile, and shipped once after the restart",
    function* () {
      const { database, started, world } = yield* place("SQLite")
      const before = yield* started()
      const renewed = world.tables.rotateKey("musicclidaemon")
      expect(yield* statusOf(telemetry(before))).toBe(204)
      yield* Effect.promise(() => before.server.says(/musicclidaemon.*key/))
      expect(shipped(before)).toBe(0)
      yield* stop(before.server)
      // As if the 5 minutes until the next probe of the key had passed.
      yield* rawQuery(database.MUSIC_DATABASE_PATH ?? "", "UPDATE destinations SET paused_until = 0")
      const after = yield* started({ MUSIC_CLIDAEMON_TABLE_KEY: renewed })
      expect(yield* statusOf(telemetry(after))).toBe(204)
      yield* eventually("both events", () => shipped(after) === 2)
    }
  )

  it.scopedLive(
    "of the tracker: both tokens work at once, no report waits or is filed twice, and a restart files what was refused",
    function* () {
      const { started, world } = yield* place("PostgreSQL")
      const before = yield* started()
      expect(yield* statusOf(report(before))).toBe(200)
      yield* filed(before, 1)
      const token = world.tracker.addToken("harbor-bot", "write")
      const after = yield* started({ MUSIC_GITHUB_TOKEN: token })
      yield* stop(before.server)
      world.tracker.revokeToken(world.trackerToken)
      expect(yield* statusOf(report(after))).toBe(200)
      yield* filed(after, 2)
      world.tracker.revokeToken(token)
      expect(yield* statusOf(report(after))).toBe(200)
      yield* Effect.promise(() => after.server.says(/"The tracker refuses our settings/))
      yield* stop(after.server)
      yield* filed(yield* started({ MUSIC_GITHUB_TOKEN: world.tracker.addToken("harbor-bot", "write") }), 3)
    }
  )
})
