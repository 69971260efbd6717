/** SQLite files with the current schema, copied from one that is migrated once for each worker of the test runner. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect, type Scope } from "effect"
import { makeStore } from "../../src/layers/store/StoreHealth.ts"
import { openDatabase } from "../../src/layers/store/sqlite/SqliteStore.ts"

/** A folder that is removed with the scope. */
export const temporaryFolder: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "music-test-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

let schema: Buffer | undefined

const readTemplate = Effect.gen(function* () {
  const file = join(yield* temporaryFolder, "template.sqlite")
  yield* Effect.scoped(openDatabase(file))
  return readFileSync(file)
}).pipe(Effect.scoped, Effect.orDie)

/** The path of a file with the schema and without rows. */
export const migratedFile: Effect.Effect<string, never, Scope.Scope> = Effect.gen(function* () {
  schema ??= yield* readTemplate
  const file = join(yield* temporaryFolder, "music.sqlite")
  writeFileSync(file, schema)
  return file
})

/** A store on such a file. */
export const sqliteStore = Effect.flatMap(migratedFile, (path) =>
  Effect.flatMap(openDatabase(path), makeStore)
)
