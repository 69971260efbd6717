/** Reports chosen by filter instead of an id, shared by the commands that remove reports and discard deliveries. */
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import {
  OperatorQueries,
  type Page,
  type ReportSelection,
  type ReportSize
} from "../../services/OperatorQueries.ts"
import { type CommandFailed, usage } from "../CommandFailed.ts"
import { since, sinceOf } from "../Flags.ts"
import { Screen } from "../Screen.ts"
import { formatBytes, formatCount } from "../Text.ts"

export const selectionOptions = {
  anonymous: Options.boolean("anonymous").pipe(
    Options.withDescription("instead of an id: reports without a verified reporter")
  ),
  reporter: Options.text("reporter").pipe(
    Options.withPseudoName("who"),
    Options.withDescription("instead of an id: reports of a public id, or anonymous, or unverified"),
    Options.optional
  ),
  since,
  dryRun: Options.boolean("dry-run").pipe(
    Options.withDescription("counts what the filters select, and changes nothing")
  )
}

interface Given {
  readonly id: Option.Option<string>
  readonly anonymous: boolean
  readonly reporter: Option.Option<string>
  readonly since: Option.Option<string>
  readonly dryRun: boolean
}

/** The id, or what the filters select together. */
export const readChoice = (
  given: Given
): Effect.Effect<Either.Either<ReportSelection, string>, CommandFailed> => {
  const { anonymous, id, reporter } = given
  const filtered = anonymous || Option.isSome(reporter) || Option.isSome(given.since)
  if (Option.isSome(id))
    return filtered || given.dryRun
      ? Effect.fail(usage("an id together with a filter or --dry-run", "give one id, or filters"))
      : Effect.succeed(Either.left(id.value))
  return filtered
    ? Effect.map(sinceOf(given.since), (from) => Either.right({ anonymous, reporter, since: from }))
    : Effect.fail(usage("an id or a filter is required", "give an id, --anonymous, --reporter or --since"))
}

/** Reports of one query, and of one line of progress. */
const pageSize = 500

/** Runs `change` for each report, newest first; the number and the bytes of those that it changed. */
export const changeEach = <E, R>(
  selection: ReportSelection,
  change: (report: ReportSize) => Effect.Effect<boolean, E, R>
) =>
  Effect.gen(function* () {
    const screen = yield* Screen
    const queries = yield* OperatorQueries
    let after = Option.none<string>()
    let count = 0
    let bytes = 0
    do {
      const page: Page<ReportSize> = yield* queries.reportSizes(selection, { limit: pageSize, after })
      for (const report of page.items)
        if (yield* change(report)) {
          count += 1
          bytes += report.bytes
        }
      after = page.next
      yield* screen.progress(formatCount(count, "report"))
    } while (Option.isSome(after))
    yield* screen.progress("")
    return { count, bytes }
  })

/** `2 reports, which take 1.2 MB`. */
export const sizeText = ({ bytes, count }: { readonly bytes: number; readonly count: number }): string =>
  `${formatCount(count, "report")}, which ${count === 1 ? "takes" : "take"} ${formatBytes(bytes)}`
