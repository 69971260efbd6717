import * as Context from "effect/Context"
import type { Environment } from "../layers/Settings.ts"

/** The environment that a command reads its settings from. */
export class Surroundings extends Context.Tag("music/cli/Surroundings")<Surroundings, Environment>() {}
