import * as Context from "effect/Context"

/**
 * The environment that a command reads its settings from: that of the process. `--env-file` adds to it, so that `serve` and the
 * database drivers see the same.
 */
export class CliEnvironment extends Context.Tag("music/cli/Environment")<
  CliEnvironment,
  Record<string, string | undefined>
>() {}

/** Names of the variables that only the file of `--env-file` sets. */
export class FromFileOnly extends Context.Reference<FromFileOnly>()("music/cli/FromFileOnly", {
  defaultValue: (): ReadonlyArray<string> => []
}) {}
