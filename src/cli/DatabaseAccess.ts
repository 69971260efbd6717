/** The database of the settings, for commands that query and repair. It is neither created nor migrated. */
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { readSettings } from "../layers/settings/Settings.ts"
import { makeStore } from "../layers/store/StoreHealth.ts"
import { databaseFromSettings } from "../layers/store/StoreFromSettings.ts"
import {
  makeOperatorQueries,
  OperatorQueries,
  type OperatorQueriesService
} from "../services/store/OperatorQueries.ts"
import type { Page, PageRequest } from "../services/store/Pages.ts"
import { Store } from "../services/Store.ts"
import { failed, Host, type Noun, printPage } from "./Host.ts"

const databaseSettings = ["MUSIC_DATABASE_PATH", "MUSIC_DATABASE_URL"]

/** The settings. Those that name the database must be valid; others may be missing. */
export const databasePlace = Effect.flatMap(Host, ({ environment }) => {
  const { problems, settings } = readSettings(environment)
  const bad = problems.filter(({ name }) => databaseSettings.includes(name))
  const lines = bad.map(({ name, problem }) => `${name}: ${problem}`)
  return bad.length === 0
    ? Effect.succeed(settings)
    : Effect.fail(failed(78, lines.join("; "), "see music-backend config"))
})

const access = Layer.unwrapScoped(
  Effect.gen(function* () {
    const database = yield* databaseFromSettings(yield* databasePlace, { migrate: false })
    return Layer.merge(
      Layer.succeed(OperatorQueries, makeOperatorQueries(database)),
      Layer.scoped(Store, makeStore(database))
    )
  })
)

/** Provides the database to a command. */
export const onDatabase = Effect.provide(access)

/** A command that lists the records of one query. */
export const list = <A, E>(
  noun: Noun<A>,
  asJson: boolean,
  query: (queries: OperatorQueriesService) => Effect.Effect<Page<A>, E>
) =>
  OperatorQueries.pipe(
    Effect.flatMap(query),
    Effect.flatMap((page) => printPage(noun, page, asJson)),
    onDatabase
  )

/** All records of a query, read `limit` at a time. */
export const readAll = <A, E>(
  limit: number,
  query: (queries: OperatorQueriesService, page: PageRequest) => Effect.Effect<Page<A>, E>
) =>
  Stream.paginateChunkEffect(Option.none<string>(), (after) =>
    Effect.map(
      Effect.flatMap(OperatorQueries, (queries) => query(queries, { limit, after })),
      ({ items, next }) => [Chunk.fromIterable(items), Option.map(next, Option.some)] as const
    )
  )
