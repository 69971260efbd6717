/** The slice of the outages of databases that every test run plays. */
import { rmSync } from "node:fs"
import { Effect } from "effect"
import { it } from "../world/Test.ts"
import { newPath } from "../layers/store/Stores.ts"
import { playOutages, sqliteAt } from "./Outages.ts"
import { away, expectRecovery, expectRound, filed, keptWhole, signIn } from "./Server.ts"

playOutages(true)

it.scopedLive("SQLite that loses its write-ahead log keeps acknowledged writes for a restart", function* () {
  const path = yield* newPath
  yield* Effect.scoped(
    Effect.gen(function* () {
      const { server } = yield* sqliteAt(path)
      const signed = yield* signIn(server)
      yield* expectRound(server, signed)
      yield* filed(server, 1)
      rmSync(`${path}-wal`)
      yield* expectRound(server, signed, away)
    })
  )
  const { readNumber, server } = yield* sqliteAt(path)
  yield* expectRecovery(server, yield* signIn(server))
  yield* keptWhole(readNumber, { reports: 2, events: 2 })
})
