/** SQLite files with the current schema, copied from one that is migrated once for each worker of the test runner. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { openDatabase } from "../../src/layers/store/sqlite/SqliteStore.ts"

const folderIn = (parent: string): Effect.Effect<string, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(parent, "music-test-"))),
    (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
  )

/** A folder that is removed with the scope. */
export const temporaryFolder = folderIn(tmpdir())

/** A file system in memory, where there is one: no such file outlives its machine. */
const memory = "/dev/shm"

let schema: Buffer | undefined

const readTemplate = Effect.gen(function* () {
  const file = join(yield* temporaryFolder, "template.sqlite")
  yield* Effect.scoped(openDatabase(file))
  return readFileSync(file)
}).pipe(Effect.scoped, Effect.orDie)

/** The path of a file with the schema and without rows. */
export const migratedFile: Effect.Effect<string, never, Scope.Scope> = Effect.gen(function* () {
  schema ??= yield* readTemplate
  const file = join(yield* folderIn(existsSync(memory) ? memory : tmpdir()), "music.sqlite")
  writeFileSync(file, schema)
  return file
})
