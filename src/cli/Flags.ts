/** Options that several commands share. */
import * as Options from "@effect/cli/Options"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Page, PageRequest } from "../services/OperatorQueries.ts"
import { type CommandFailed, usage } from "./CommandFailed.ts"
import { printJson, Screen } from "./Screen.ts"

export const json = Options.boolean("json").pipe(
  Options.withDescription("one JSON document on standard output")
)

export const plane = Options.text("plane").pipe(
  Options.withPseudoName("id"),
  Options.withDescription("plane: production, or a testing environment's UUID"),
  Options.optional
)

export const since = Options.text("since").pipe(
  Options.withPseudoName("time"),
  Options.withDescription("earliest time: 2026-11-21, 2026-11-21T07:30:00Z, or 30m, 24h, 7d ago"),
  Options.optional
)

export const paging = {
  limit: Options.text("limit").pipe(
    Options.withPseudoName("n"),
    Options.withDescription("maximum number of results, 1 to 1000 (default 20)"),
    Options.withDefault("20")
  ),
  after: Options.text("after").pipe(
    Options.withPseudoName("page"),
    Options.withDescription("cursor that the previous page printed"),
    Options.optional
  )
}

export const pageOf = ({
  after,
  limit
}: {
  readonly after: Option.Option<string>
  readonly limit: string
}): Effect.Effect<PageRequest, CommandFailed> =>
  /^\d{1,4}$/.test(limit) && Number(limit) >= 1 && Number(limit) <= 1_000
    ? Effect.succeed({ limit: Number(limit), after })
    : Effect.fail(
        usage(`--limit ${limit} is not a number from 1 to 1000`, "use a smaller limit, and page with --after")
      )

const spans: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Milliseconds since the epoch. */
export const sinceOf = (given: Option.Option<string>): Effect.Effect<Option.Option<number>, CommandFailed> =>
  Option.match(given, {
    onNone: () => Effect.succeedNone,
    onSome: (text) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const [, count = "", unit = ""] = /^(\d{1,5})([mhd])$/.exec(text) ?? []
        const at = count === "" ? Date.parse(text) : now - Number(count) * (spans[unit] ?? 0)
        return Number.isNaN(at)
          ? Effect.fail(
              usage(`--since ${text} is not a time`, "write 2026-11-21, 2026-11-21T07:30:00Z, 30m, 24h or 7d")
            )
          : Effect.succeedSome(at)
      })
  })

/** Prints a page as JSON, `{items, next}`, or by `table`, and the option that shows the next page. */
export const printPage = <A, R>(
  page: Page<A>,
  options: {
    readonly json: boolean
    readonly toJson: (item: A) => unknown
    /** Plural noun for the message of an empty page. */
    readonly nouns: string
    readonly table: (items: ReadonlyArray<A>) => Effect.Effect<void, CommandFailed, R>
  }
): Effect.Effect<void, CommandFailed, R | Screen> =>
  Effect.gen(function* () {
    const screen = yield* Screen
    if (options.json)
      return yield* printJson({ items: page.items.map(options.toJson), next: Option.getOrNull(page.next) })
    if (page.items.length === 0) return yield* screen.err(`No ${options.nouns}.`)
    yield* options.table(page.items)
    if (Option.isSome(page.next)) yield* screen.err(`\nMore results: --after ${page.next.value}`)
  })
