import * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { StoreUnavailable } from "../../services/Store.ts"
import { databasePlace, storeFailed } from "../DatabaseAccess.ts"
import { json } from "../Flags.ts"
import { printJson, Screen } from "../Screen.ts"

/** The schema from which a database that did not open can be migrated; 0 for one that is not there. */
const migratable = ({ problem }: StoreUnavailable): number | undefined => {
  switch (problem.kind) {
    case "absent_file":
      return 0
    case "older_schema":
      return problem.found
    default:
      return undefined
  }
}

export const migrate = Command.make("migrate", { json }, (given) =>
  Effect.gen(function* () {
    const screen = yield* Screen
    const settings = yield* databasePlace
    const { databaseFromSettings, latestMigration } = yield* Effect.promise(
      () => import("../DatabaseModule.ts")
    )
    const open = (migrating: boolean) =>
      databaseFromSettings(settings, { migrate: migrating }).pipe(
        Effect.map(({ name }) => name),
        Effect.scoped
      )
    const before = yield* Effect.either(open(false))
    const from = Either.isRight(before) ? latestMigration : migratable(before.left)
    if (Either.isLeft(before) && from === undefined) return yield* storeFailed(before.left)
    const behind = Either.isLeft(before)
    if (behind) yield* screen.progress(`migrating to ${latestMigration}, this can take a while`)
    const name = Either.isRight(before) ? before.right : yield* Effect.mapError(open(true), storeFailed)
    yield* screen.progress("")
    if (given.json) return yield* printJson({ database: name, from, to: latestMigration, migrated: behind })
    yield* screen.out(
      behind
        ? `${name}: ${from === 0 ? "made" : `migrated from ${from}`}, now at ${latestMigration}`
        : `${name} is at ${latestMigration} already`
    )
  })
).pipe(
  Command.withDescription(
    "Creates the database, or migrates it to this version; a server does the same at its start"
  )
)
