/** What the database holds of sessions, what removes it, and what a database that fails changes. */
import { randomUUID } from "node:crypto"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { production } from "../../sandbox/upstreams/Iam.ts"
import { backup } from "../../src/layers/store/backup/Backup.ts"
import { restore } from "../../src/layers/store/backup/Restore.ts"
import { sha256 } from "../../src/services/Digest.ts"
import { StoreUnavailable, type StoreService } from "../../src/services/Store.ts"
import { folder, postgres, sqlite } from "../layers/store/Stores.ts"
import { newKey, requests } from "../proof/fairness/Requests.ts"
import { invent, minute, openSessionWorld, type Session } from "./SessionWorld.ts"

const day = 24 * 60 * minute

const worldWithRows = (kind: typeof sqlite, change?: (store: StoreService) => StoreService) =>
  Effect.gen(function* () {
    const world = yield* openSessionWorld(kind, change === undefined ? {} : { change })
    const { complete, logIn, open, place } = world
    const { close, send } = yield* open()
    const rows = kind.rawQuery(
      place,
      "SELECT plane, kind, login, actor, ends_at FROM session_digests ORDER BY ends_at, kind"
    )
    /** How many rows each login has, in the order of the logins' names. */
    const counts = Effect.map(
      kind.rawQuery(place, "SELECT COUNT(*) AS rows FROM session_digests GROUP BY login ORDER BY login"),
      (logins) => logins.map((login) => Number(login.rows)).sort((one, other) => one - other)
    )
    const refresh = (session: Session, key = newKey()) =>
      complete(() => send(session.address, requests.refresh(session.refreshToken, key)))
    const ask = (session: Session, request: ReturnType<typeof requests.me>) =>
      complete(() => send(session.address, request))
    const login = (at: number) => complete(() => logIn(send, at))
    return { ...world, ask, close, counts, login, refresh, rows, send }
  })

describe("The database", () => {
  it.scopedLive(
    "holds a digest of each token that login and refresh handed out, until it ends",
    function* () {
      const { login, place, refresh, rows, time, upstreams } = yield* worldWithRows(sqlite)
      const session = yield* login(1)
      const loggedInAt = time.now()
      time.jump(5 * minute)
      const { body } = yield* refresh(session)
      const stored = yield* rows
      const sinceLogin = stored.map(({ ends_at, kind }) => [kind, Number(ends_at) - loggedInAt])
      const near = (millis: number) => expect.closeTo(millis, -3)
      expect(sinceLogin).toEqual([
        // The spent one is replayed for ten minutes.
        ["refresh", near(15 * minute)],
        ["access", near(30 * minute)],
        ["access", near(35 * minute)],
        ["refresh", near(30 * day + 5 * minute)]
      ])
      expect(new Set(stored.map(({ plane }) => plane))).toEqual(new Set(["production"]))
      expect(new Set(stored.map(({ login: name }) => name)).size).toBe(1)
      expect(new Set(stored.map(({ actor }) => actor)).size).toBe(1)
      expect(String(stored[0]?.actor)).toMatch(/^[0-9a-f]{64}$/)

      // Neither a token nor a short-lived token, nor what could be computed from one without the label of this use.
      const file = readFileSync(place, "latin1") + readFileSync(`${place}-wal`, "latin1")
      const slts = [...upstreams.controls.plane(production).slts.keys()]
      const tokens = [
        session.accessToken,
        session.refreshToken,
        String(body.access_token),
        String(body.refresh_token)
      ]
      expect(slts).toHaveLength(1)
      for (const credential of [...slts, ...tokens])
        for (const text of [credential, sha256(credential), sha256(`production ${sha256(credential)}`)])
          expect(file).not.toContain(text)
    }
  )

  it.scopedLive(
    "holds those of a testing plane with their plane, and no digest of the id that logged in",
    function* () {
      const { complete, place, rows, send, upstreams } = yield* worldWithRows(sqlite)
      const { environmentId, musicSecret } = upstreams.environment
      const slt = "si:deejay"
      const { status } = yield* complete(() =>
        send("198.51.100.1", requests.login(slt, newKey(), musicSecret))
      )
      expect(status).toBe(200)
      expect((yield* rows).map(({ kind, plane }) => [kind, plane])).toEqual([
        ["access", environmentId],
        ["refresh", environmentId]
      ])
      const file = readFileSync(place, "latin1") + readFileSync(`${place}-wal`, "latin1")
      for (const digest of [sha256(slt), sha256(`${environmentId} ${slt}`), sha256(musicSecret)])
        expect(file).not.toContain(digest)
    }
  )

  it.scopedLive("keeps a row of a replayed refresh as it was", function* () {
    const { login, refresh, rows, time } = yield* worldWithRows(sqlite)
    const session = yield* login(1)
    yield* refresh(session, "the-key-of-the-refresh-1")
    const before = yield* rows
    time.jump(5 * minute)
    expect((yield* refresh(session, "the-key-of-the-refresh-1")).status).toBe(200)
    expect(yield* rows).toEqual(before)
  })

  it.scopedLive("loses them by a restore of a backup", function* () {
    const { close, login, place, rows } = yield* worldWithRows(sqlite)
    yield* login(1)
    const copy = join(yield* folder, "copy.sqlite")
    const database = { databasePath: place, databaseUrl: Option.none() }
    yield* backup(database, copy)
    yield* Effect.promise(close)
    expect(yield* rows).toHaveLength(2)
    yield* restore(database, copy, { overwrite: true })
    expect(yield* rows).toHaveLength(0)
  })
})

for (const kind of [sqlite, postgres])
  describe(`The rows of a login, ${kind.name}`, () => {
    it.scopedLive("lose a refused access token, and nothing else", function* () {
      const { ask, counts, login, refresh, upstreams } = yield* worldWithRows(kind)
      const session = yield* login(1)
      yield* login(2)
      yield* refresh(session)
      expect(yield* counts).toEqual([2, 4])
      const { accessTokens } = upstreams.controls.plane(production)
      const token = accessTokens.get(session.accessToken)
      if (token !== undefined) token.revoked = true
      expect((yield* ask(session, requests.me(session.accessToken))).code).toBe("unauthenticated")
      expect(yield* counts).toEqual([2, 3])
      expect((yield* ask(session, requests.me(invent("oat", 1)))).code).toBe("unauthenticated")
      expect(yield* counts).toEqual([2, 3])
    })

    it.scopedLive("are removed with a refused refresh token; an unknown one removes none", function* () {
      const { ask, counts, login, refresh } = yield* worldWithRows(kind)
      const session = yield* login(1)
      yield* login(2)
      yield* refresh(session)
      const unknown = requests.refresh(invent("ort", 1), newKey())
      expect((yield* ask(session, unknown)).code).toBe("unauthenticated")
      expect(yield* counts).toEqual([2, 4])
      // A second use under another key.
      expect((yield* refresh(session)).code).toBe("unauthenticated")
      expect(yield* counts).toEqual([2])
    })

    it.scopedLive("are removed by a logout", function* () {
      const { ask, counts, login } = yield* worldWithRows(kind)
      const session = yield* login(1)
      yield* login(2)
      expect((yield* ask(session, requests.logout(invent("ort", 1), newKey()))).status).toBe(204)
      expect(yield* counts).toEqual([2, 2])
      expect((yield* ask(session, requests.logout(session.refreshToken, newKey()))).status).toBe(204)
      expect(yield* counts).toEqual([2])
    })

    it.scopedLive("are removed by a verified webhook that names the actor, and by no other", function* () {
      const { ask, counts, login, upstreams } = yield* worldWithRows(kind)
      const session = yield* login(1)
      yield* login(2)
      const deliver = (
        eventType: string,
        data: Readonly<Record<string, unknown>>,
        { forged = false } = {}
      ) => {
        const { body, headers } = upstreams.controls.buildWebhook(production, {
          appId: "music",
          eventId: randomUUID(),
          eventType,
          data
        })
        return ask(session, {
          method: "POST",
          path: "/webhook/",
          headers: {
            ...headers,
            ...(forged ? { "X-Silicon-IAM-Signature": `v1=${"0".repeat(64)}` } : {})
          },
          body: body.toString()
        })
      }
      const removed = "organization.membership.removed.v1"
      const resource = { type: "organization_membership", id: randomUUID(), status: "removed", version: 4 }
      const members = (...rows: ReadonlyArray<unknown>) => ({
        changed_fields: [],
        current: { members: rows }
      })
      const named = (publicId: string) =>
        members({ resource, principal: { type: "carbon", public_id: publicId } })
      const harmless = [
        [removed, members({ resource, authorization: "removed" })],
        [removed, named("c:person3")],
        ["organization.updated.v1", { changed_fields: [], current: { organization: { name: "c:person1" } } }]
      ] as const
      for (const [type, data] of harmless) expect((yield* deliver(type, data)).status).toBe(200)
      expect((yield* deliver(removed, named("c:person1"), { forged: true })).status).toBe(401)
      expect(yield* counts).toEqual([2, 2])
      expect((yield* deliver(removed, named("c:person1"))).status).toBe(200)
      expect(yield* counts).toEqual([2])
      expect((yield* deliver("session.logout.v1", { subject_id: "c:person2" })).status).toBe(200)
      expect(yield* counts).toEqual([])
    })
  })

describe("A database that does not keep sessions", () => {
  const unavailable = Effect.fail(new StoreUnavailable({ problem: { kind: "unreachable" } }))
  const broken: Readonly<Record<string, Effect.Effect<never, StoreUnavailable>>> = {
    "fails them": unavailable,
    "does not answer": Effect.never
  }

  for (const [name, access] of Object.entries(broken))
    it.scopedLive(`that ${name} delays an answer by 50 ms at most, and fails none`, function* () {
      let running = 0
      let most = 0
      const answer = Effect.suspend(() => {
        running += 1
        most = Math.max(most, running)
        return Effect.ensuring(
          access,
          Effect.sync(() => {
            running -= 1
          })
        )
      })
      const { complete, logIn, send, time } = yield* worldWithRows(sqlite, (store) => ({
        ...store,
        sessionDigests: {
          remember: () => answer,
          find: () => answer,
          nameActor: () => answer,
          forgetToken: () => answer,
          forgetLogin: () => answer
        }
      }))
      const began = time.now()
      const session = yield* complete(() => logIn(send, 1))
      // Four calls of upstreams take 20 ms each.
      expect(time.now() - began).toBeLessThanOrEqual(80 + 50)
      const timed = (request: ReturnType<typeof requests.me>) => async () => {
        const before = time.now()
        const { status } = await send(session.address, request)
        return { status, millis: time.now() - before }
      }
      const refreshed = yield* complete(timed(requests.refresh(session.refreshToken, newKey())))
      expect(refreshed.status).toBe(200)
      expect(refreshed.millis).toBeLessThanOrEqual(40 + 50)
      // Strangers, whom the store would have to be asked about.
      const strangers = yield* complete(() =>
        Promise.all(
          Array.from({ length: 40 }, async (_, at) => {
            const before = time.now()
            const { status } = await send(`203.0.113.${at}`, requests.me(invent("oat", at)))
            return { status, millis: time.now() - before }
          })
        )
      )
      for (const { millis, status } of strangers) {
        expect(status).toBe(401)
        expect(millis).toBeLessThanOrEqual(20 + 50)
      }
      expect(most).toBeLessThanOrEqual(6)
      const out = yield* complete(timed(requests.logout(session.refreshToken, newKey())))
      expect(out.status).toBe(204)
      expect(out.millis).toBeLessThanOrEqual(20 + 50)
    })
})
