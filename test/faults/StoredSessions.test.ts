/** What the database holds of sessions, what removes it, and what a database that fails changes. */
import { randomUUID } from "node:crypto"
import { readFileSync } from "node:fs"
import { Effect } from "effect"
import { describe, expect } from "vitest"
import { production } from "../../sandbox/upstreams/Iam.ts"
import { sha256 } from "../../src/services/Digest.ts"
import { StoreUnavailable } from "../../src/services/Store.ts"
import { requests, type Sent } from "../world/Driver.ts"
import { rowsOf } from "../world/Oracle.ts"
import { it } from "../world/Test.ts"
import { addActor, tokensOf } from "../world/Calls.ts"
import { openWorld } from "../world/World.ts"

const minute = 60_000
const day = 24 * 60 * minute

let keys = 0
/** A key that no other caller has. */
const newKey = (): string => `session-key-${String(++keys).padStart(12, "0")}`
const invent = (prefix: string, at: number) => `${prefix}_${String(at).padStart(43, "x")}`

/** One instance whose calls to an upstream take 20 ms, with requests and rows for the tests of this file. */
const sessionRows = Effect.gen(function* () {
  const world = yield* Effect.acquireRelease(
    Effect.promise(() => openWorld({ tables: [], latency: () => 10 })),
    ({ close }) => Effect.promise(close)
  )
  const { database, time, upstreams } = world
  /** Runs the time of the simulation until the promise ends. */
  const complete = <A>(act: () => Promise<A>): Effect.Effect<A> => Effect.promise(() => time.complete(act()))
  const ask = (request: Sent) => complete(() => world.send("198.51.100.1", request))
  const { controls } = upstreams.iam
  return {
    ...world,
    controls,
    complete,
    ask,
    login: (at: number) => {
      const actor = addActor(world, `c:person${at}`)
      const slt = controls.mintSlt(production, { appId: "music", actor })
      const made = Effect.map(ask(requests.login(slt, newKey())), tokensOf)
      return Effect.map(made, (tokens) => tokens ?? expect.fail("no session"))
    },
    rows: () => rowsOf(database, "SELECT login, actor, ends_at FROM session_digests ORDER BY ends_at"),
    /** How many rows each login has. */
    counts: () =>
      rowsOf(database, "SELECT COUNT(*) AS rows FROM session_digests GROUP BY login ORDER BY rows").map(
        ({ rows }) => rows
      ),
    /** No text of these is in the database's files. */
    expectAbsent: (texts: ReadonlyArray<string>) => {
      const bytes = readFileSync(database, "latin1") + readFileSync(`${database}-wal`, "latin1")
      expect(texts.filter((text) => bytes.includes(text))).toEqual([])
    }
  }
})

describe("The database", () => {
  it.scopedLive("holds a digest of each token until it ends, and nothing to make it from", function* () {
    const { ask, controls, expectAbsent, login, rows, time, upstreams } = yield* sessionRows
    const session = yield* login(1)
    const loggedInAt = time.now()
    time.jump(5 * minute)
    const refreshed = yield* ask(requests.refresh(session.refresh, newKey()))
    const stored = rows()
    const near = (millis: number) => expect.closeTo(millis, -3)
    expect(stored.map(({ ends_at }) => Number(ends_at) - loggedInAt)).toEqual([
      // The spent one is replayed for ten minutes.
      near(15 * minute),
      near(30 * minute),
      near(35 * minute),
      near(30 * day + 5 * minute)
    ])
    for (const column of ["login", "actor"])
      expect(new Set(stored.map((row) => row[column])).size, column).toBe(1)
    expect(stored[0]).toMatchObject({ actor: expect.stringMatching(/^[0-9a-f]{64}$/) })

    const { environmentId, musicSecret } = upstreams.seeded.environment
    const testing = requests.login("si:deejay", newKey(), musicSecret)
    expect((yield* ask(testing)).status).toBe(200)
    expect(rows()).toHaveLength(6)

    // Neither a token nor a short-lived token, nor what could be computed from one without the label of this use.
    const tokens = [session, tokensOf(refreshed)].flatMap((pair) => Object.values(pair ?? {}))
    expect(tokens).toHaveLength(4)
    const slts = [...controls.plane(production).slts.keys()]
    expect(slts).toHaveLength(1)
    for (const credential of [...slts, ...tokens])
      expectAbsent([credential, sha256(credential), sha256(`production ${sha256(credential)}`)])
    expectAbsent([sha256("si:deejay"), sha256(`${environmentId} si:deejay`), sha256(musicSecret)])
  })

  it.scopedLive("forgets a refused access token, and the login of a refused or spent other", function* () {
    const { ask, controls, counts, login } = yield* sessionRows
    const [session, second] = [yield* login(1), yield* login(2)]
    yield* login(3)
    yield* ask(requests.refresh(session.refresh, newKey()))
    expect(counts()).toEqual([2, 2, 4])
    const token = controls.plane(production).accessTokens.get(session.access)
    if (token !== undefined) token.revoked = true
    const unknown = invent("ort", 1)
    const steps: ReadonlyArray<readonly [request: Sent, status: number, left: ReadonlyArray<number>]> = [
      [requests.me(session.access), 401, [2, 2, 3]],
      [requests.me(invent("oat", 1)), 401, [2, 2, 3]],
      [requests.refresh(unknown, newKey()), 401, [2, 2, 3]],
      [requests.logout(unknown, newKey()), 204, [2, 2, 3]],
      // A second use under another key.
      [requests.refresh(session.refresh, newKey()), 401, [2, 2]],
      [requests.logout(second.refresh, newKey()), 204, [2]]
    ]
    for (const [request, status, left] of steps) {
      expect((yield* ask(request)).status).toBe(status)
      expect(counts()).toEqual(left)
    }
  })

  it.scopedLive("forgets the actors that a verified webhook names, and no other", function* () {
    const { ask, controls, counts, login } = yield* sessionRows
    yield* login(1)
    yield* login(2)
    const named = (id: string) => ({ eventType: "session.logout.v1", data: { subject_id: id } })
    const forged = { "X-Silicon-IAM-Signature": `v1=${"0".repeat(64)}` }
    for (const [event, headers, status, left] of [
      [named("c:person3"), {}, 200, [2, 2]],
      [named("c:person1"), forged, 401, [2, 2]],
      [named("c:person1"), {}, 200, [2]]
    ] as const) {
      const delivery = controls.buildWebhook(production, { ...event, eventId: randomUUID() })
      const request = { method: "POST", path: "/webhook/", headers: { ...delivery.headers, ...headers } }
      expect((yield* ask({ ...request, body: delivery.body })).status).toBe(status)
      expect(counts()).toEqual(left)
    }
  })
})

it.scopedLive.each([
  ["fails them", Effect.fail(new StoreUnavailable({ kind: "unanswered" }))],
  ["does not answer", Effect.never]
] as const)("A store of sessions that %s delays answers by 50 ms, and fails none", function* ([, broken]) {
  const { ask, complete, instances, login, time } = yield* sessionRows
  const { sessionDigests } = yield* complete(async () => instances[0]?.store() ?? expect.fail("no instance"))
  for (const method of ["remember", "find", "forgetToken", "forgetLogin"])
    Object.assign(sessionDigests, { [method]: () => broken })

  /** Each call of an upstream takes 20 ms. */
  const timed = <A, E>(calls: number, act: Effect.Effect<A, E>) =>
    Effect.gen(function* () {
      const began = time.now()
      const result = yield* act
      expect(time.now() - began).toBeLessThanOrEqual(20 * calls + 50)
      return result
    })
  // The first login of a plane fetches the list of endpoints.
  const { refresh } = yield* timed(5, login(1))
  for (const [request, calls, status] of [
    [requests.refresh(refresh, newKey()), 2, 200],
    [requests.me(invent("oat", 1)), 1, 401],
    [requests.logout(refresh, newKey()), 1, 204]
  ] as const)
    expect((yield* timed(calls, ask(request))).status).toBe(status)
})
