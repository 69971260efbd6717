/** The steps of docs/operations.md, "Rotate a secret", with servers as processes. */
import { randomUUID } from "node:crypto"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { describe, expect, inject } from "vitest"
import { call } from "../../sandbox/HttpExchange.ts"
import { mintSlt, startUpstreams } from "../../sandbox/SimulatedUpstreams.ts"
import { production } from "../../sandbox/upstreams/Iam.ts"
import { folder, postgres, rawQuery } from "../layers/store/Stores.ts"
import { eventually } from "../support/Waiting.ts"
import { it } from "../world/Test.ts"
import { bundleBefore, type Served, serve, stop } from "./Processes.ts"
import { issues, report, signIn, telemetry, webhook } from "./Server.ts"

bundleBefore()

const page = readFileSync(new URL("../../docs/operations.md", import.meta.url), "utf8")
const section = page.split(/^## /m).find((text) => text.startsWith("Rotate a secret")) ?? ""
/** The statements for the database's role. */
const statements = (/^```sql\n(.*?)^```$/ms.exec(section)?.[1] ?? "").trim().split("\n")

const upstreams = startUpstreams(() => Date.now())
const file = Effect.map(folder, (path) => ({ MUSIC_DATABASE_PATH: join(path, "music.sqlite") }))
const shared = Effect.map(postgres.emptyPath, (url) => ({ MUSIC_DATABASE_URL: url }))
const status = <E>(exchange: Effect.Effect<{ readonly status: number }, E>) =>
  Effect.map(exchange, (answer) => answer.status)

describe("A secret that is rotated", () => {
  it.scopedLive(
    "of webhooks: a server with both versions accepts every delivery, one without refuses",
    function* () {
      const world = yield* upstreams
      const place = yield* shared
      const { webhookKeyVersion: version, webhookSecret } = world.seeded.production
      const secret = randomUUID()
      const renewed = {
        ...place,
        MUSIC_IAM_WEBHOOK_SECRET: secret,
        MUSIC_IAM_WEBHOOK_KEY_VERSION: String(version + 1)
      }
      const previous = {
        MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET: webhookSecret,
        MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION: String(version)
      }
      const old = yield* serve(place, { world })
      const both = yield* serve({ ...renewed, ...previous }, { world })
      const deliver = (...servers: ReadonlyArray<Served>) =>
        Effect.forEach(servers, (server) => status(webhook(server)))
      expect(yield* deliver(old, both)).toEqual([200, 200])
      world.iam.controls.setWebhook(production, "music", { url: `${both.base}/webhook/`, secret })
      const last = yield* serve(renewed, { world })
      expect(yield* deliver(old, both, last)).toEqual([401, 200, 200])
    }
  )

  it.scopedLive(
    "of the application: what is refused spends nothing, and succeeds after the restart",
    function* () {
      const world = yield* upstreams
      const place = yield* file
      const before = yield* serve(place, { world })
      const headers = yield* signIn(before)
      const body = { slt: mintSlt(world) }
      const key = { "idempotency-key": "the-login-0123456789" }
      const login = ({ base }: Served) =>
        call(`${base}/api/v1/auth/login`, { method: "POST", body, headers: key })
      const me = ({ base }: Served) => status(call(`${base}/api/v1/auth/me`, { headers }))
      const renewed = world.iam.controls.rotateSecret(production, "music")
      const refused = yield* login(before)
      expect([refused.status, JSON.parse(refused.text).error.code]).toEqual([502, "dependency_misconfigured"])
      expect([yield* me(before), yield* status(report(before))]).toEqual([502, 200])
      yield* stop(before.server)
      const after = yield* serve({ ...place, MUSIC_IAM_APP_SECRET: renewed }, { world })
      expect([yield* status(login(after)), yield* me(after)]).toEqual([200, 200])
    }
  )

  it.scopedLive(
    "of a table: its events are accepted meanwhile, and shipped once after the restart",
    function* () {
      const world = yield* upstreams
      const place = yield* file
      const rows = () => world.tables.rows("musicclidaemon").length
      const before = yield* serve(place, { world })
      const renewed = world.tables.rotateKey("musicclidaemon")
      expect(yield* status(telemetry(before))).toBe(204)
      yield* Effect.promise(() => before.server.says(/musicclidaemon.*key/))
      expect(rows()).toBe(0)
      yield* stop(before.server)
      // As if the 5 minutes until the next probe of the key had passed.
      yield* rawQuery(place.MUSIC_DATABASE_PATH, "UPDATE destinations SET paused_until = 0")
      const after = yield* serve({ ...place, MUSIC_CLIDAEMON_TABLE_KEY: renewed }, { world })
      expect(yield* status(telemetry(after))).toBe(204)
      yield* eventually("both events", () => rows() === 2)
    }
  )

  it.scopedLive(
    "of the tracker: both tokens work at once, and no report waits or is filed twice",
    function* () {
      const world = yield* upstreams
      const place = yield* shared
      const before = yield* serve(place, { world })
      expect(yield* status(report(before))).toBe(200)
      yield* eventually("the first issue", () => issues({ world }) === 1)
      const token = world.tracker.addToken("harbor-bot", "write")
      const after = yield* serve({ ...place, MUSIC_GITHUB_TOKEN: token }, { world })
      yield* stop(before.server)
      world.tracker.revokeToken(world.trackerToken)
      expect(yield* status(report(after))).toBe(200)
      yield* eventually("the second issue", () => issues({ world }) === 2)
    }
  )

  it.scopedLive(
    "of the tracker: a restart with another token files what the old one could not",
    function* () {
      const world = yield* upstreams
      const place = yield* file
      const before = yield* serve(place, { world })
      world.tracker.revokeToken(world.trackerToken)
      expect(yield* status(report(before))).toBe(200)
      yield* Effect.promise(() => before.server.says(/"The tracker refuses our settings/))
      yield* stop(before.server)
      const token = world.tracker.addToken("harbor-bot", "write")
      yield* serve({ ...place, MUSIC_GITHUB_TOKEN: token }, { world })
      yield* eventually("the issue", () => issues({ world }) === 1)
    }
  )

  it.scopedLive(
    "of the database: a second role bridges the change, and owns nothing afterwards",
    function* () {
      const world = yield* upstreams
      const superuser = inject("postgres").server
      const [role, bridge] = [`music_${randomUUID().slice(0, 8)}`, `bridge_${randomUUID().slice(0, 8)}`]
      const say = (statement: string) => postgres.rawQuery(superuser, statement)
      const start = (username: string, password: string) => {
        const url = Object.assign(new URL(superuser), { username, password, pathname: `/${role}` })
        return serve({ MUSIC_DATABASE_URL: url.href }, { world })
      }
      const [open = "", change = "", close = ""] = statements.map((text) =>
        text.replace("music_bridge", bridge).replace(/\bmusic\b/, role)
      )
      yield* say(`CREATE ROLE ${role} LOGIN PASSWORD 'old'`)
      yield* say(`CREATE DATABASE ${role} OWNER ${role};\nREVOKE ALL ON DATABASE ${role} FROM PUBLIC`)
      yield* Effect.addFinalizer(() =>
        say(`DROP DATABASE ${role} WITH (FORCE);\nDROP ROLE IF EXISTS ${bridge};\nDROP ROLE ${role}`)
      )
      const works = (...servers: ReadonlyArray<Served>) =>
        Effect.map(
          Effect.forEach(servers, (server) => status(report(server))),
          (all) => expect(all).toEqual(servers.map(() => 200))
        )
      const before = yield* start(role, "old")
      yield* say(open)
      const between = yield* start(bridge, "another")
      yield* works(before, between)
      yield* stop(before.server)
      yield* say(change)
      const after = yield* start(role, "new")
      yield* works(between, after)
      yield* stop(between.server)
      yield* say(close)
      yield* works(after)
    }
  )
})
