/** Commands that change what one id names, or what filters select together. */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import type * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { ReportSelection } from "../../services/store/OperatorQueries.ts"
import { onDatabase, readAll } from "../DatabaseAccess.ts"
import { misuse } from "../Host.ts"
import { flag, json, reporter, since } from "../Options.ts"

/** How to change what is chosen. */
export interface Change {
  /** Kept with the change. */
  readonly reason: string
  readonly json: boolean
  readonly dryRun: boolean
}

/** A command that changes what one id names, or what filters select together. */
export const changing = <const Name extends string, E1, R1, E2, R2>(
  name: Name,
  named: Args.Args<string>,
  reason: Options.Options<string>,
  one: (id: string, given: Change) => Effect.Effect<void, E1, R1>,
  all: (selection: ReportSelection, given: Change) => Effect.Effect<void, E2, R2>
) => {
  const anonymous = flag("anonymous", "instead of an id: reports without a verified reporter")
  const dryRun = flag("dry-run", "counts what the filters select, and changes nothing")
  const config = { id: Args.optional(named), anonymous, reporter, since, dryRun, reason, json }
  return Command.make(name, config, (given) =>
    Effect.gen(function* () {
      const filtered = given.anonymous || Option.isSome(given.reporter) || Option.isSome(given.since)
      if (Option.isSome(given.id) && (filtered || given.dryRun))
        return yield* misuse("an id together with a filter or --dry-run")
      if (Option.isNone(given.id) && !filtered)
        return yield* misuse("an id or a filter is required: --anonymous, --reporter or --since")
      if (!given.dryRun && (given.reason.trim() === "" || given.reason.length > 500))
        return yield* misuse("--reason is missing, empty or longer than 500 characters")
      yield* Option.isSome(given.id) ? one(given.id.value, given) : all(given, given)
    }).pipe(onDatabase)
  )
}

/** What the filters select, newest first. */
export const selected = (selection: ReportSelection) =>
  readAll(500, (queries, page) => queries.reportSizes(selection, page))

export const sumBytes = (reports: ReadonlyArray<{ readonly bytes: number }>): number =>
  reports.reduce((sum, { bytes }) => sum + bytes, 0)
