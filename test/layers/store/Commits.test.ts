/** Simultaneous writes share a commit, none affects another one, and each is answered after it. */
import { statSync } from "node:fs"
import { assert, describe } from "vitest"
import { it } from "../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import { Effect, Exit, FastCheck as fc, Fiber, Scope } from "effect"
import { any, run } from "../../../src/services/store/Statements.ts"
import { sampleEntry, sampleEvent } from "./Samples.ts"
import { type Kind, onBoth, postgres, rawQuery, sqlite } from "./Stores.ts"

const numbers = (length: number) => Array.from({ length }, (_, index) => index)
const all = { concurrency: "unbounded" } as const
const turn = Effect.promise(() => new Promise(setImmediate))

/** Transactions that wrote to the spool, of Postgres. */
const commitsOf = (path: string) =>
  Effect.map(postgres.rawQuery(path, "SELECT COUNT(DISTINCT xmin::text) AS commits FROM spool"), ([row]) =>
    Number(row?.commits)
  )

/** Removing a token of these actors fails in the database: a statement, one that also ends the transaction, or the commit. */
const failures = ["ABORT", "ROLLBACK", "COMMIT"]
const refuse = (name: Kind["name"]) => `
  CREATE TABLE parents (id INTEGER PRIMARY KEY);
  CREATE TABLE children (id INTEGER REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED);
  ${
    name === "SQLite"
      ? failures
          .map((actor) => {
            const action =
              actor === "COMMIT" ? "INSERT INTO children VALUES (1)" : `SELECT RAISE(${actor}, 'refused')`
            return `CREATE TRIGGER fail_${actor} BEFORE DELETE ON session_digests WHEN OLD.actor = '${actor}' BEGIN ${action}; END;`
          })
          .join("\n")
      : `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          IF OLD.actor <> 'COMMIT' THEN RAISE 'refused'; END IF; INSERT INTO children VALUES (1); RETURN OLD; END $$;
        CREATE TRIGGER refused BEFORE DELETE ON session_digests FOR EACH ROW EXECUTE FUNCTION refuse()`
  }`

const write = fc.record({
  eventId: fc.constantFrom("a", "b", "c", "d", "e"),
  actor: fc.constantFrom("fine", "fine", "fine", "fine", ...failures),
  pause: fc.integer({ min: 0, max: 3 }),
  /** After so many turns of the event loop. */
  interrupted: fc.option(fc.integer({ min: 0, max: 2 }), { nil: undefined })
})
type Write = typeof write extends fc.Arbitrary<infer A> ? A : never

const play = (kind: Kind, writes: ReadonlyArray<Write>) =>
  Effect.gen(function* () {
    const path = yield* kind.ownPath
    const { sessionDigests, webhooks } = yield* kind.openStore(path)
    for (const actor of failures)
      yield* sessionDigests.remember({ login: actor, actor }, [
        { digest: actor, endsAt: Number.MAX_SAFE_INTEGER }
      ])
    yield* kind.rawQuery(path, refuse(kind.name))
    const fibers = yield* Effect.forEach(writes, (one) =>
      Effect.gen(function* () {
        yield* Effect.repeatN(one.pause === 0 ? Effect.void : turn, one.pause)
        const fiber = yield* Effect.fork(
          webhooks.receive(sampleEvent({ eventId: one.eventId }), [], [one.actor])
        )
        if (one.interrupted !== undefined)
          yield* Effect.forkScoped(
            Effect.zipRight(Effect.repeatN(turn, one.interrupted), Fiber.interruptFork(fiber))
          )
        return { ...one, fiber }
      })
    )
    const ends = yield* Effect.forEach(fibers, ({ fiber, ...one }) =>
      Effect.map(Fiber.await(fiber), (exit) => ({ ...one, exit }))
    )
    // The last commit of an interrupted caller may be under way: this one comes after it.
    yield* webhooks.receive(sampleEvent({ eventId: "last" }), [])
    const rows = yield* kind.rawQuery(path, "SELECT event_id FROM webhook_inbox")
    const stored = new Set(rows.map(({ event_id }) => event_id))
    for (const { actor, eventId, exit, interrupted } of ends) {
      // A second delivery of an event has no effect.
      if (Exit.isSuccess(exit)) assert.isTrue(stored.has(eventId) && (actor === "fine" || !exit.value))
      else assert.isTrue(actor !== "fine" || interrupted !== undefined)
    }
    for (const id of stored) {
      const mine = ends.filter(({ actor, eventId }) => eventId === id && actor === "fine")
      const first = mine.filter(({ exit }) => Exit.isSuccess(exit) && exit.value).length
      assert.isTrue(
        id === "last" || first === 1 || (first === 0 && mine.some(({ exit }) => Exit.isFailure(exit)))
      )
    }
  }).pipe(Effect.scoped)

onBoth("Simultaneous writes", (kind) => {
  const { freshPath, openStore } = kind

  it("store exactly those that succeeded, whatever the others do", () =>
    fc.assert(
      fc.asyncProperty(fc.array(write, { minLength: 1, maxLength: 25 }), (writes) =>
        Effect.runPromise(play(kind, writes))
      ),
      { numRuns: kind.name === "SQLite" ? 20 : 4 }
    ))

  it.scoped("200 batches of telemetry share a few commits, with correct sums", function* () {
    const path = yield* freshPath
    const { spool } = yield* openStore(path)
    const admissions = yield* Effect.forEach(
      numbers(200),
      (index) =>
        spool.offer([sampleEntry(`${index}-a`), sampleEntry(`${index % 50}-b`)], { limitBytes: 1_000_000 }),
      all
    )
    assert.isTrue(admissions.every((admission) => admission === "accepted"))
    // Each commit writes whole pages to the log: 200 of them more than a megabyte.
    if (kind.name === "SQLite") assert.isBelow(statSync(`${path}-wal`).size, 500_000)
    else assert.isAtMost(yield* commitsOf(path), 20)
    const [counts] = yield* spool.counts
    deepStrictEqual(
      [counts?.accepted, counts?.duplicates, counts?.waiting, counts?.waitingBytes],
      [400, 150, 250, 2_500]
    )
  })
})

describe("Shared commits", () => {
  it.scoped("of Postgres: the COMMIT of an aborted transaction is a failure", function* () {
    const path = yield* postgres.freshPath
    const { sql, write } = yield* postgres.openStore(path)
    const remember = run(sql`
      INSERT INTO known_planes (environment_id, webhook_key_digest, remembered_at) VALUES ('env', 'digest', 1)`)
    const failing = sql`SELECT 1 / 0`
    // A statement without a result fails its transaction by itself.
    for (const [swallowed, code] of [
      [Effect.ignore(any(failing)), "25P02"],
      [Effect.ignore(run(failing)), "22012"]
    ] as const) {
      const body = Effect.zipRight(remember, swallowed)
      assert.strictEqual((yield* Effect.flip(body.pipe(write("logins", "Test.swallow")))).code, code)
    }
    deepStrictEqual(yield* postgres.rawQuery(path, "SELECT * FROM known_planes"), [])
    yield* remember.pipe(write("logins", "Test.next"))
  })

  it.scoped("of Postgres have a bound of records", function* () {
    const path = yield* postgres.freshPath
    const { spool } = yield* postgres.openStore(path)
    const batch = (of: number) => numbers(300).map((index) => sampleEntry(`${of} ${index}`))
    yield* Effect.forEach(numbers(10), (index) => spool.offer(batch(index), { limitBytes: 1_000_000 }), all)
    assert.isAtLeast(yield* commitsOf(path), 4)
  })

  it.scoped("of Postgres: telemetry that cannot be stored fails no other", function* () {
    const { spool } = yield* postgres.openStore(yield* postgres.freshPath)
    const offer = (id: string) => Effect.exit(spool.offer([sampleEntry(id)], { limitBytes: 1_000 }))
    const [first, refused, second] = yield* Effect.forEach(["a", "b\0", "c"], offer, all)
    deepStrictEqual([first, second], [Exit.succeed("accepted"), Exit.succeed("accepted")])
    assert.isTrue(refused !== undefined && Exit.isFailure(refused))
  })

  it.scoped("of SQLite: writes that wait when the store closes are committed", function* () {
    const path = yield* sqlite.freshPath
    const scope = yield* Scope.make()
    const { webhooks } = yield* Scope.extend(sqlite.openStore(path), scope)
    const writing = yield* Effect.fork(webhooks.receive(sampleEvent(), []))
    yield* Effect.yieldNow()
    yield* Scope.close(scope, Exit.void)
    assert.isTrue(yield* Fiber.join(writing))
    deepStrictEqual(yield* rawQuery(path, "SELECT plane FROM webhook_inbox"), [{ plane: "production" }])
  })
})
