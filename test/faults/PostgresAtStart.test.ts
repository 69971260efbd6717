/** The real process, started before its Postgres answers, or against one that it cannot use. */
import { assert, describe } from "vitest"
import { it } from "../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import { startUpstreams } from "../../sandbox/SimulatedUpstreams.ts"
import { pgProxy } from "../layers/store/postgres/PgProxy.ts"
import { postgres } from "../layers/store/Stores.ts"
import { pooler } from "../support/Pooler.ts"
import { bundleBefore, environmentOf, refuse, startProcess, stop } from "./Processes.ts"

bundleBefore()

const starting = (url: string) =>
  Effect.gen(function* () {
    const world = yield* startUpstreams(() => Date.now())
    const server = yield* startProcess({ ...environmentOf(world), MUSIC_DATABASE_URL: url })
    yield* Effect.promise(() => server.says(/"Waiting for the database"/))
    return server
  })

describe.concurrent("A server on PostgreSQL", () => {
  it.scopedLive("waits for one that is away, and starts when it answers", function* () {
    const proxy = yield* pgProxy(yield* postgres.freshPath)
    yield* proxy.cut
    const server = yield* starting(proxy.url)
    assert.match(server.output(), /does not answer \(ECONNREFUSED\)/)
    yield* proxy.repair
    yield* Effect.promise(() => server.says(/"Listening"/))
    assert.match(server.output(), /"The database answers"/)
    assert.match(server.output(), /"Database opened".*Postgres database 127\.0\.0\.1:\d+\/\w+"/)
    assert.strictEqual((yield* stop(server)).code, 0)
    const { password } = new URL(proxy.url)
    assert.isNotEmpty(password)
    assert.notInclude(server.output(), password)
  })

  it.scopedLive("ends at a signal while it waits", function* () {
    const proxy = yield* pgProxy(yield* postgres.freshPath)
    yield* proxy.cut
    const server = yield* starting(proxy.url)
    deepStrictEqual((yield* stop(server)).code, 0)
    assert.notMatch(server.output(), /"Listening"/)
  })

  it.scopedLive("ends at once behind a pooler in transaction mode, with reason and fix", function* () {
    const url = yield* pooler(yield* postgres.freshPath, "transaction")
    const { code, output } = yield* refuse({ MUSIC_DATABASE_URL: url })
    assert.strictEqual(code, 69)
    assert.match(output, /shares sessions between transactions.*pool_mode = session/)
    assert.notMatch(output, /Waiting for the database/)
  })
})
