/** A separate process: `write <database>` commits in a loop and prints a line for each commit; `backup <database> <file>` copies once. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { backup } from "../../src/layers/store/backup/Backup.ts"
import { entryOf, openStore } from "./Files.ts"

const [, , what = "", path = "", file = ""] = process.argv

const write = Effect.gen(function* () {
  const { spool } = yield* openStore(path)
  for (let index = 0; ; index += 1) {
    yield* spool.offer([entryOf(`written-${index}`, JSON.stringify({ text: "x".repeat(2_000) }))], {
      limitBytes: 1_000_000_000
    })
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
