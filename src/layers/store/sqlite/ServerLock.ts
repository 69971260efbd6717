/**
 * One server at a time works on a SQLite file. It holds a lock on an empty file beside the database, which the system frees however
 * the process ends. Another file beside it exists while the holder serves, and names it: a holder without it stops.
 */
import { readFileSync, rmSync, writeFileSync } from "node:fs"
import { hostname } from "node:os"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { Drain } from "../../../services/Drain.ts"
import { recurWithin } from "../../../services/MonotonicTime.ts"
import { StoreUnavailable } from "../../../services/Store.ts"
import { type DatabaseFailure, isBusy, toStoreUnavailable } from "../../../services/store/StoreUnavailable.ts"
import { createFile, keepOwner, locateFile, nameOf, openConnection } from "./SqliteFiles.ts"

const stopping = "stopping"
const isStopping = (error: DatabaseFailure): boolean =>
  error._tag === "StoreUnavailable" && error.code === stopping

/**
 * Holds the lock of the database at `path` until the scope closes. Fails while another server serves; waits for one that stops, for
 * `seconds` at most.
 */
export const lockForServer = (
  path: string,
  seconds: number
): Effect.Effect<void, StoreUnavailable, Drain | Scope.Scope> =>
  Effect.gen(function* () {
    const { begun } = yield* Drain
    const name = nameOf(path)
    const file = yield* locateFile(path, true)
    const lockFile = `${file}-lock`
    const serverFile = `${file}-server`
    const own = (made: string) => Effect.ignore(Effect.try(() => keepOwner(made, file)))

    yield* Effect.try(() => createFile(lockFile))
    yield* own(lockFile)
    const { say } = yield* openConnection(name, lockFile)
    // It does not wait, which would block the thread, and leaves no journal behind.
    for (const pragma of ["busy_timeout = 0", "journal_mode = MEMORY"]) yield* say(`PRAGMA ${pragma}`)

    const otherServer = () => {
      const server = Either.try(() => readFileSync(serverFile, "utf8"))
      const which = Either.match(server, {
        onLeft: () => ", which has not stopped in time",
        onRight: (found) => ` (${found})`
      })
      return new StoreUnavailable({
        database: name,
        kind: "locked",
        code: Either.isLeft(server) ? stopping : undefined,
        phrase: `is in use by another server${which}`,
        advice:
          "stop that server, or set MUSIC_DATABASE_PATH to another file; servers that run together need PostgreSQL"
      })
    }
    // SQLite grants it to one connection, whatever comes at the same moment. Nothing is written, so the file stays empty.
    const take = Effect.mapError(say("BEGIN IMMEDIATE"), (error) => (isBusy(error) ? otherServer() : error))
    const waiting = Effect.logInfo("Waiting for the earlier server to stop", {
      database: name,
      at_most_seconds: seconds
    })
    const taken = Effect.retry(take, {
      while: isStopping,
      schedule: Schedule.intersect(Schedule.spaced("100 millis"), recurWithin(seconds * 1_000))
    })
    yield* Effect.catchIf(take, isStopping, () => Effect.zipRight(waiting, taken))

    const unmark = Effect.ignore(Effect.try(() => rmSync(serverFile, { force: true })))
    // Never through a link that is there. Without a mark, on a full disk, a second server waits in vain.
    const mark = Effect.try(() =>
      writeFileSync(serverFile, `process ${process.pid} on ${hostname()}`, { flag: "wx", mode: 0o600 })
    )
    yield* Effect.acquireRelease(
      unmark.pipe(Effect.zipRight(mark), Effect.zipRight(own(serverFile)), Effect.ignore),
      () => unmark
    )
    yield* Effect.forkScoped(Effect.zipRight(begun, unmark))
  }).pipe(Effect.mapError(toStoreUnavailable(`${nameOf(path)}-lock`)))
