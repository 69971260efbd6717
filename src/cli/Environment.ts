import * as Context from "effect/Context"
import type { Environment } from "../layers/settings/Settings.ts"

/** The environment that a command reads its settings from. */
export class CliEnvironment extends Context.Tag("music/cli/Environment")<CliEnvironment, Environment>() {}
