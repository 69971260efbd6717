/** The steps of docs/operations.md, "Rotate a secret", with servers as processes. */
import { randomUUID } from "node:crypto"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { inject } from "vitest"
import { call } from "../../sandbox/HttpExchange.ts"
import { mintSlt, type SimulatedUpstreams, startUpstreams } from "../../sandbox/SimulatedUpstreams.ts"
import { production } from "../../sandbox/upstreams/Iam.ts"
import { folder, postgres, rawQuery } from "../layers/store/Stores.ts"
import { eventually } from "../support/Waiting.ts"
import { bundleBefore, type Served, serve, stop } from "./Processes.ts"
import { report, signIn, telemetry, webhook } from "./Server.ts"

bundleBefore()

const page = readFileSync(new URL("../../docs/operations.md", import.meta.url), "utf8")
const section = page.split(/^## /m).find((text) => text.startsWith("Rotate a secret")) ?? ""
/** The statements for the database's role. */
const statements = (/^```sql\n(.*?)^```$/ms.exec(section)?.[1] ?? "").trim().split("\n")

const upstreams = startUpstreams(() => Date.now())
const file = Effect.map(folder, (path) => ({ MUSIC_DATABASE_PATH: join(path, "music.sqlite") }))
const status = <E>(exchange: Effect.Effect<{ readonly status: number }, E>) =>
  Effect.map(exchange, (answer) => answer.status)

const login = ({ base }: Served, slt: string) =>
  call(`${base}/api/v1/auth/login`, {
    method: "POST",
    body: { slt },
    headers: { "idempotency-key": `login-${slt}` }
  })

const rows = (world: SimulatedUpstreams) => world.tables.rows("musicclidaemon").length

describe("A secret that is rotated", () => {
  it.scopedLive(
    "of webhooks: a server with both versions accepts every delivery, one without refuses",
    function* () {
      const world = yield* upstreams
      const { controls } = world.iam
      const place = { MUSIC_DATABASE_URL: yield* postgres.emptyPath }
      const { webhookKeyVersion: version, webhookSecret: secret } = world.seeded.production
      const renewed = {
        ...place,
        MUSIC_IAM_WEBHOOK_SECRET: randomUUID(),
        MUSIC_IAM_WEBHOOK_KEY_VERSION: String(version + 1)
      }
      const old = yield* serve(place, { world })
      const both = yield* serve(
        {
          ...renewed,
          MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET: secret,
          MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION: String(version)
        },
        { world }
      )
      expect(yield* Effect.forEach([old, both], (server) => status(webhook(server)))).toEqual([200, 200])
      const after = controls.setWebhook(production, "music", {
        url: `${both.base}/webhook/`,
        secret: renewed.MUSIC_IAM_WEBHOOK_SECRET
      })
      expect(after.keyVersion).toBe(version + 1)
      const last = yield* serve(renewed, { world })
      expect(yield* Effect.forEach([old, both, last], (server) => status(webhook(server)))).toEqual([
        401, 200, 200
      ])
    }
  )

  it.scopedLive(
    "of the application: what is refused spends nothing, and succeeds after the restart",
    function* () {
      const world = yield* upstreams
      const place = yield* file
      const before = yield* serve(place, { world })
      const session = yield* signIn(before)
      const slt = mintSlt(world)
      const renewed = world.iam.controls.rotateSecret(production, "music")
      const refused = yield* login(before, slt)
      expect([refused.status, JSON.parse(refused.text).error.code]).toEqual([502, "dependency_misconfigured"])
      expect(yield* status(call(`${before.base}/api/v1/auth/me`, { headers: session }))).toBe(502)
      expect(yield* status(report(before))).toBe(200)
      yield* stop(before.server)
      const after = yield* serve({ ...place, MUSIC_IAM_APP_SECRET: renewed }, { world })
      expect(yield* status(login(after, slt))).toBe(200)
      expect(yield* status(call(`${after.base}/api/v1/auth/me`, { headers: session }))).toBe(200)
    }
  )

  it.scopedLive(
    "of a table: its events are accepted meanwhile, and shipped once after the restart",
    function* () {
      const world = yield* upstreams
      const place = yield* file
      const before = yield* serve(place, { world })
      const renewed = world.tables.rotateKey("musicclidaemon")
      expect(yield* status(telemetry(before))).toBe(204)
      yield* Effect.promise(() => before.server.says(/musicclidaemon.*key/))
      expect(rows(world)).toBe(0)
      yield* stop(before.server)
      // As if the 5 minutes until the next probe of the key had passed.
      yield* rawQuery(place.MUSIC_DATABASE_PATH, "UPDATE destinations SET paused_until = 0")
      const after = yield* serve({ ...place, MUSIC_CLIDAEMON_TABLE_KEY: renewed }, { world })
      expect(yield* status(telemetry(after))).toBe(204)
      yield* eventually("both events", () => rows(world) === 2)
    }
  )

  it.scopedLive(
    "of the tracker: both tokens work at once, and no report waits or is filed twice",
    function* () {
      const world = yield* upstreams
      const place = { MUSIC_DATABASE_URL: yield* postgres.emptyPath }
      const issues = () => world.tracker.issues("harbor/music").length
      const before = yield* serve(place, { world })
      expect(yield* status(report(before))).toBe(200)
      yield* eventually("the first issue", () => issues() === 1)
      const token = world.tracker.addToken("harbor-bot", "write")
      const after = yield* serve({ ...place, MUSIC_GITHUB_TOKEN: token }, { world })
      yield* stop(before.server)
      world.tracker.revokeToken(world.trackerToken)
      expect(yield* status(report(after))).toBe(200)
      yield* eventually("the second issue", () => issues() === 2)
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
      yield* serve({ ...place, MUSIC_GITHUB_TOKEN: world.tracker.addToken("harbor-bot", "write") }, { world })
      yield* eventually("the issue", () => world.tracker.issues("harbor/music").length === 1)
    }
  )

  it.scopedLive(
    "of the database: a second role bridges the change, and owns nothing afterwards",
    function* () {
      const world = yield* upstreams
      const superuser = inject("postgres").server
      const [role, bridge] = [`music_${randomUUID().slice(0, 8)}`, `bridge_${randomUUID().slice(0, 8)}`]
      const asSuperuser = (statement: string) => postgres.rawQuery(superuser, statement)
      const place = (user: string, password: string) => ({
        MUSIC_DATABASE_URL: Object.assign(new URL(superuser), {
          username: user,
          password,
          pathname: `/${role}`
        }).href
      })
      const [open = "", change = "", close = ""] = statements.map((text) =>
        text.replace("music_bridge", bridge).replace(/\bmusic\b/, role)
      )
      yield* asSuperuser(`CREATE ROLE ${role} LOGIN PASSWORD 'old'`)
      yield* asSuperuser(`CREATE DATABASE ${role} OWNER ${role};\nREVOKE ALL ON DATABASE ${role} FROM PUBLIC`)
      yield* Effect.addFinalizer(() =>
        asSuperuser(`DROP DATABASE ${role} WITH (FORCE);\nDROP ROLE IF EXISTS ${bridge};\nDROP ROLE ${role}`)
      )
      const works = (server: Served) => status(report(server))

      const before = yield* serve(place(role, "old"), { world })
      yield* asSuperuser(open)
      const between = yield* serve(place(bridge, "another"), { world })
      expect(yield* Effect.forEach([before, between], works)).toEqual([200, 200])
      yield* stop(before.server)
      yield* asSuperuser(change)
      const after = yield* serve(place(role, "new"), { world })
      expect(yield* Effect.forEach([between, after], works)).toEqual([200, 200])
      yield* stop(between.server)
      yield* asSuperuser(close)
      expect(yield* works(after)).toBe(200)
    }
  )
})
