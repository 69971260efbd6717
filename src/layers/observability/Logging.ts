import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as HashMap from "effect/HashMap"
import * as Inspectable from "effect/Inspectable"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { Settings } from "../../services/Settings.ts"

const fieldsOf = (value: unknown): object =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? value : { data: value }

/** One JSON object per line. Effect's `Logger.json` drops the stack and cause of an error; this one keeps them. */
export const jsonLine = Logger.make<unknown, string>(({ annotations, cause, date, logLevel, message }) => {
  const parts = Array.isArray(message) ? message : [message]
  const texts = parts.filter((part) => typeof part !== "object" || part === null)
  const objects = parts.filter((part) => typeof part === "object" && part !== null)
  return JSON.stringify({
    time: date.toISOString(),
    level: logLevel.label.toLowerCase(),
    message: texts.map(String).join(" "),
    ...Object.fromEntries(HashMap.map(annotations, Inspectable.toJSON)),
    ...Object.assign({}, ...objects.map((part) => fieldsOf(Inspectable.toJSON(part)))),
    ...(Cause.isEmpty(cause) ? {} : { cause: Cause.pretty(cause, { renderErrorCause: true }) })
  })
})

/** Log lines on standard output, by `MUSIC_LOG_LEVEL` and `MUSIC_LOG_FORMAT`. */
export const LoggingLive: Layer.Layer<never, never, Settings> = Layer.unwrapEffect(
  Effect.map(Settings, ({ logFormat, logLevel }) =>
    Layer.merge(
      Logger.replace(
        Logger.defaultLogger,
        logFormat === "json" ? Logger.withConsoleLog(jsonLine) : Logger.prettyLogger({ colors: "auto" })
      ),
      Logger.minimumLogLevel(logLevel)
    )
  )
)
