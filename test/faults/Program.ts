/** A separate process: `write <database>` commits in a loop and prints a line for each commit; `backup <database> <file>` copies once. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { backup } from "../../src/layers/store/backup/Backup.ts"
import { sampleEntry } from "../layers/store/Samples.ts"
import { openDatabase } from "../../src/layers/store/sqlite/SqliteStore.ts"
import { makeStore } from "../../src/layers/store/repositories/Repositories.ts"

const [, , what = "", path = "", file = ""] = process.argv

const write = Effect.gen(function* () {
  const { spool } = yield* Effect.flatMap(openDatabase(path), makeStore)
  for (let index = 0; ; index += 1) {
    yield* spool.offer(
      [sampleEntry(`written-${index}`, { json: JSON.stringify({ text: "x".repeat(2_000) }) })],
      {
        limitBytes: 1_000_000_000
      }
    )
    process.stdout.write(`${index}\n`)
    // Lets the pipe flush what was printed.
    yield* Effect.promise(() => new Promise(setImmediate))
  }
})

const copy = backup({ databasePath: path, databaseUrl: Option.none() }, file).pipe(
  Effect.match({
    onFailure: ({ fix, reason }) => process.stdout.write(`${reason}. ${fix}\n`),
    onSuccess: () => process.stdout.write("copied\n")
  })
)

await Effect.runPromise(Effect.scoped(what === "write" ? write : copy))
