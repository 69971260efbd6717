import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as HashMap from "effect/HashMap"
import * as Inspectable from "effect/Inspectable"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Predicate from "effect/Predicate"
import { Settings } from "../../services/Settings.ts"

/** With the stacks; some values that were thrown, such as an error that is its own cause, cannot be formatted. */
const formatCause = (cause: Cause.Cause<unknown>): string =>
  Either.getOrElse(
    Either.try(() => Cause.pretty(cause, { renderErrorCause: true })),
    () => "A cause that cannot be shown"
  )

/** One JSON object per line. Effect's `Logger.json` drops the stack and cause of an error; this one keeps them. */
const jsonLine = Logger.make<unknown, string>(({ annotations, cause, date, logLevel, message }) => {
  const [texts, fields] = Arr.partition(Arr.ensure(message), Predicate.isObject)
  return JSON.stringify({
    time: date.toISOString(),
    level: logLevel.label.toLowerCase(),
    message: texts.map(String).join(" "),
    ...Object.fromEntries(HashMap.map(annotations, Inspectable.toJSON)),
    ...Object.assign({}, ...fields.map(Inspectable.toJSON)),
    ...(Cause.isEmpty(cause) ? {} : { cause: formatCause(cause) })
  })
})

/**
 * Writes the lines of one turn of the event loop together: a write for each line costs more than the rest of a small request.
 * At the end of the scope, and of the process, what is left is written.
 */
const makeLineWriter = Effect.gen(function* () {
  const { unsafe: console } = yield* Effect.console
  let lines: Array<string> = []
  const flush = (): void => {
    if (lines.length > 0) console.log(lines.join("\n"))
    lines = []
  }
  process.once("exit", flush)
  yield* Effect.addFinalizer(() => Effect.sync(() => process.off("exit", flush)).pipe(Effect.map(flush)))
  return (line: string): void => {
    if (lines.push(line) === 1) setImmediate(flush)
  }
})

/** Log lines on standard output by `MUSIC_LOG_LEVEL`: JSON, or a form for people on a terminal. */
export const LoggingLive: Layer.Layer<never, never, Settings> = Layer.unwrapScoped(
  Effect.gen(function* () {
    const { logLevel } = yield* Settings
    const writeLine = yield* makeLineWriter
    return Layer.mergeAll(
      Logger.replace(
        Logger.defaultLogger,
        process.stdout.isTTY ? Logger.prettyLogger({ colors: "auto" }) : Logger.map(jsonLine, writeLine)
      ),
      // It would put every line into the current span, too: `trace_id` leads there.
      Logger.remove(Logger.tracerLogger),
      Logger.minimumLogLevel(logLevel)
    )
  })
)
