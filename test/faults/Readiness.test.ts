/** Servers on one PostgreSQL that answers late: two that wait for it, and one that gives up. */
import { describe } from "vitest"
import { it } from "../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { call } from "../../sandbox/HttpExchange.ts"
import { makeStore } from "../../src/layers/store/repositories/Repositories.ts"
import { openPostgres } from "../../src/layers/store/postgres/PgStore.ts"
import { pgProxy } from "../layers/store/postgres/PgProxy.ts"
import { postgres } from "../layers/store/Stores.ts"
import { startServer } from "./Server.ts"

describe("A PostgreSQL database that answers late", () => {
  it.scopedLive(
    "leaves the servers on it ready while they wait, and not those whose accesses ended without an answer",
    function* () {
      const proxy = yield* pgProxy(yield* postgres.freshPath)
      /** Milliseconds for an answer. */
      const serving = (patience: number) =>
        startServer(
          Effect.flatMap(
            openPostgres(Redacted.make(proxy.url), {
              timeouts: { connect: patience, answer: patience, close: 500 }
            }),
            makeStore
          )
        )
      const servers = [yield* serving(80_000), yield* serving(80_000), yield* serving(2_500)]
      const probe = Effect.forEach(
        servers,
        ({ base }) =>
          Effect.map(call(`${base}/readyz`), ({ status, text }) => {
            const [, database = ""] = /"database":"(\w+)"/.exec(text) ?? []
            return `${status} ${database}`
          }),
        { concurrency: "unbounded" }
      )
      /** All answers until these. */
      const until = (...wanted: ReadonlyArray<string>) =>
        Effect.gen(function* () {
          const seen = new Set<string>()
          let answers = yield* probe
          while (answers.join() !== wanted.join()) {
            for (const answer of answers.slice(0, 2)) seen.add(answer)
            yield* Effect.sleep(100)
            answers = yield* probe
          }
          return [...seen].toSorted()
        })
      yield* until("200 ok", "200 ok", "200 ok")
      yield* proxy.freeze
      const waiting = yield* until("200 degraded", "200 degraded", "503 failed")
      deepStrictEqual(
        waiting.filter((answer) => !answer.startsWith("200")),
        []
      )
      yield* proxy.repair
      yield* until("200 ok", "200 ok", "200 ok")
    }
  )
})
