import * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { isOlder, schemaFound } from "../../layers/diagnostics/StoreTrouble.ts"
import { databasePlace, storeFailed } from "../DatabaseAccess.ts"
import { json } from "../Flags.ts"
import { printJson, Screen } from "../Screen.ts"

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
    const from = Either.isRight(before) ? latestMigration : schemaFound(before.left.reason)
    const behind = Either.isLeft(before) && (isOlder(before.left.reason) || from === 0)
    if (Either.isLeft(before) && !behind) return yield* storeFailed(before.left)
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
    "Makes the database, or brings it to this version; a server does it at its start as well"
  )
)
