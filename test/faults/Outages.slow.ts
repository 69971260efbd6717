/** All other outages of databases, and a PostgreSQL that holds calls for longer than a request may last. */
import { randomUUID } from "node:crypto"
import { deepStrictEqual } from "@effect/vitest/utils"
import { Effect } from "effect"
import { assert } from "vitest"
import { postgres } from "../layers/store/Stores.ts"
import { pgProxy } from "../layers/store/postgres/PgProxy.ts"
import { it } from "../world/Test.ts"
import { numbersOf } from "./Databases.ts"
import { playOutages, postgresAt } from "./Outages.ts"
import * as Server from "./Server.ts"

const { away, expectRecovery, expectRound, filed, keptWhole, signIn } = Server

playOutages(false)

// Only the deadline can end a call before the test ends.
const endless = 600_000
/** Seconds: a deadline that calls of a database that answers keep also on a slow machine. */
const requestDeadlineSeconds = 12

it.scopedLive("Calls to a silent PostgreSQL end at their deadline; what goes on is done once", function* () {
  const url = yield* postgres.freshPath
  const proxy = yield* pgProxy(url)
  const patient = { connect: endless, statement: endless, lock: endless, answer: endless, close: 500 }
  const options = { timeouts: patient, lockWait: endless, connections: 2 }
  const server = yield* postgresAt(proxy.url, options, { requestDeadlineSeconds })
  const signed = yield* signIn(server)
  const key = randomUUID()
  yield* expectRound(server, signed)
  // Also when the test fails here: the server's end waits for the database.
  yield* Effect.addFinalizer(() => proxy.repair)
  yield* proxy.freeze
  // The second half waits for connections, and for the transaction of earlier telemetry.
  const [first, kept] = yield* Effect.all([Server.everyCall(server, signed), Server.report(server, key)], {
    concurrency: "unbounded"
  })
  deepStrictEqual(first.round, away)
  deepStrictEqual([kept.status, kept.headers.get("retry-after")], [503, "2"])
  yield* expectRound(server, signed, away)
  yield* proxy.repair
  yield* expectRecovery(server, signed)
  assert.strictEqual((yield* Server.report(server, key)).status, 200)
  // What went on without its request is done once; a report that waited for the read of its key was never begun.
  yield* filed(server, 3)
  // Telemetry that waited for the transaction of others at its deadline was never begun.
  const readNumber = numbersOf(postgres, url)
  const events = yield* readNumber("SELECT accepted FROM spool_counts WHERE table_name = 'musicclidaemon'")
  assert.include([2, 3], events)
  yield* keptWhole(readNumber, { reports: 3, events })
})
