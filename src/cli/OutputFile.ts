/**
 * Where a command writes what it was asked for. A file shows under its name only when it is whole, as a backup does; what
 * is no file (a device, a pipe) is written through and stays what it is.
 */
import { randomUUID } from "node:crypto"
import {
  closeSync,
  constants,
  fstatSync,
  linkSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  type Stats,
  statSync
} from "node:fs"
import { open } from "node:fs/promises"
import { Socket } from "node:net"
import { basename, dirname, join } from "node:path"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { fsyncFolder } from "../layers/process/FsyncFolder.ts"
import { CommandFailed, exits } from "./CommandFailed.ts"
import { Screen } from "./Screen.ts"

export interface Output {
  /** All of it. */
  readonly write: (text: string) => Effect.Effect<void, CommandFailed>
  /** When all was written; without it nothing shows under a file's name. */
  readonly finish: Effect.Effect<void, CommandFailed>
}

const hasCode = (error: unknown, ...codes: ReadonlyArray<string>): boolean =>
  typeof error === "object" &&
  error !== null &&
  "code" in error &&
  typeof error.code === "string" &&
  codes.includes(error.code)

const notWritten =
  (file: string) =>
  (error: unknown): CommandFailed => {
    const exists = hasCode(error, "EEXIST")
    return new CommandFailed({
      exit: exits.unavailable,
      lines: [exists ? `${file} exists` : `${file} cannot be written`],
      fix: exists
        ? "choose another name, or add --overwrite"
        : "choose a file in a folder that you may write, with room for it"
    })
  }

/** Waits interruptibly, and closes with the scope. */
const opened = <A>(
  acquire: Effect.Effect<A, CommandFailed>,
  release: (resource: A) => Effect.Effect<void>
): Effect.Effect<A, CommandFailed, Scope.Scope> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.tap(restore(acquire), (resource) => Effect.addFinalizer(() => release(resource)))
  )

/** A link never replaces what stands there. Not every disk knows links: there an empty file takes the name first. */
const nameUnlessTaken = (partial: string, file: string): void => {
  const linked = Either.try({ try: () => linkSync(partial, file), catch: (error) => error })
  if (Either.isRight(linked)) rmSync(partial)
  else {
    closeSync(openSync(file, "wx", 0o600))
    renameSync(partial, file)
  }
}

/** For its owner only, also where it replaces one that was for everybody. */
const toFile = (
  file: string,
  named: string,
  overwrite: boolean
): Effect.Effect<Output, CommandFailed, Scope.Scope> =>
  Effect.gen(function* () {
    const failed = notWritten(named)
    const attempt = <A>(run: () => Promise<A>) => Effect.tryPromise({ try: run, catch: failed })
    const partial = join(dirname(file), `.${basename(file)}.${randomUUID()}.partial`)
    yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(partial, { force: true })))
    const handle = yield* opened(
      attempt(() => open(partial, "wx", 0o600)),
      (openHandle) => Effect.promise(() => openHandle.close())
    )
    return {
      write: (text) => attempt(() => handle.writeFile(text)),
      finish: attempt(() => handle.sync()).pipe(
        Effect.zipRight(
          Effect.try({
            try: () => {
              if (overwrite) renameSync(partial, file)
              else nameUnlessTaken(partial, file)
              fsyncFolder(dirname(file))
            },
            catch: failed
          })
        )
      )
    }
  })

class NobodyReads extends Data.TaggedError("NobodyReads") {}

/** To whoever reads the pipe, once somebody does. Nothing here blocks a thread: a process could not even exit then. */
const toPipe = (file: string): Effect.Effect<Output, CommandFailed, Scope.Scope | Screen> =>
  Effect.gen(function* () {
    const { say } = yield* Screen
    const tried = Effect.try({
      try: () => openSync(file, constants.O_WRONLY | constants.O_NONBLOCK),
      catch: (error) => (hasCode(error, "ENXIO") ? new NobodyReads() : notWritten(file)(error))
    })
    const descriptor = Effect.catchTag(tried, "NobodyReads", () =>
      Effect.zipRight(
        say(`nobody reads ${file} yet`),
        tried.pipe(
          Effect.retry({
            while: ({ _tag }) => _tag === "NobodyReads",
            schedule: Schedule.spaced("50 millis")
          }),
          Effect.catchTag("NobodyReads", Effect.die)
        )
      )
    )
    const socket = yield* opened(
      Effect.map(descriptor, (fd) => {
        const made = new Socket({ fd, readable: false, writable: true })
        // Each write is told of its own failure.
        made.on("error", () => undefined)
        return made
      }),
      (made) => Effect.sync(() => made.destroy())
    )
    return {
      write: (text) =>
        Effect.async((resume) => {
          socket.write(text, (error) => {
            const lost = error !== null && error !== undefined
            resume(lost ? Effect.fail(notWritten(file)(error)) : Effect.void)
          })
        }),
      finish: Effect.void
    }
  })

const toDevice = (file: string): Effect.Effect<Output, CommandFailed, Scope.Scope> => {
  const attempt = <A>(run: () => Promise<A>) => Effect.tryPromise({ try: run, catch: notWritten(file) })
  return Effect.map(
    opened(
      attempt(() => open(file, constants.O_WRONLY)),
      (handle) => Effect.promise(() => handle.close())
    ),
    (handle): Output => ({ write: (text) => attempt(() => handle.writeFile(text)), finish: Effect.void })
  )
}

export const standardOutput: Effect.Effect<Output, never, Screen> = Effect.map(Screen, ({ out }) => ({
  write: (text) => out(text.replace(/\n$/, "")),
  finish: Effect.void
}))

const standardOutputIs = ({ dev, ino }: Stats): boolean =>
  Either.match(
    Either.try(() => fstatSync(process.stdout.fd)),
    { onLeft: () => false, onRight: (own) => own.dev === dev && own.ino === ino }
  )

/** Whole lines to this place; an existing file is replaced with `overwrite` only. */
export const openOutput = (
  file: string,
  { overwrite }: { readonly overwrite: boolean }
): Effect.Effect<Output, CommandFailed, Scope.Scope | Screen> =>
  Effect.gen(function* () {
    const failed = notWritten(file)
    const found = yield* Effect.try({ try: () => statSync(file, { throwIfNoEntry: false }), catch: failed })
    if (found === undefined) return yield* toFile(file, file, overwrite)
    if (standardOutputIs(found)) return yield* standardOutput
    if (found.isFIFO()) return yield* toPipe(file)
    if (found.isCharacterDevice() || found.isBlockDevice()) return yield* toDevice(file)
    if (!found.isFile()) return yield* failed(undefined)
    if (!overwrite) return yield* failed({ code: "EEXIST" })
    // A link goes on leading to it.
    const real = yield* Effect.try({ try: () => realpathSync(file), catch: failed })
    return yield* toFile(real, file, overwrite)
  })
