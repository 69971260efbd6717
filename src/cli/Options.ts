/** Options and arguments that several commands share. */
import * as Args from "@effect/cli/Args"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Num from "effect/Number"
import * as Option from "effect/Option"
import { misuse } from "./Host.ts"

/**
 * The library takes whatever follows an option for its value, and a mistyped option for an argument: `--reason --dry-run` must not
 * remove reports, nor `backup --recrod` make a file of that name. A negative number is a value, though a wrong one.
 */
const asValue = Option.liftPredicate((text: string) => text !== "" && !/^-(?!\d)/.test(text))

/** An option with a text; `shown` names the text in the help. */
export const text = (name: string, shown: string, description: string): Options.Options<string> =>
  Options.text(name).pipe(
    Options.withPseudoName(shown),
    Options.withDescription(description),
    Options.filterMap(asValue, `--${name} needs a value`)
  )

export const optionalText = (name: string, shown: string, description: string) =>
  Options.optional(text(name, shown, description))

export const flag = (name: string, description: string): Options.Options<boolean> =>
  Options.boolean(name).pipe(Options.withDescription(description))

export const choice = <const A extends string>(name: string, values: ReadonlyArray<A>, description: string) =>
  text(name, values.join(" | "), description).pipe(
    Options.filterMap(
      (given) => Arr.findFirst(values, (value) => value === given),
      `--${name} is one of ${values.join(", ")}`
    ),
    Options.optional
  )

export const argument = (name: string, description: string): Args.Args<string> =>
  Args.text({ name }).pipe(
    Args.withDescription(description),
    Args.mapEffect((value) => Effect.mapError(asValue(value), () => HelpDoc.p(`'${value}' is no ${name}`)))
  )

/** What an operator gives as the reason of a change, and the database keeps. */
export const reason = (description: string): Options.Options<string> =>
  text("reason", "text", description).pipe(
    Options.filterMap(
      Option.liftPredicate((given) => given.trim() !== "" && given.length <= 500),
      "--reason is blank or longer than 500 characters"
    )
  )

/** A whole number. */
export const count = (name: string, least: number, most: number, description: string) =>
  text(name, "n", description).pipe(
    Options.filterMap(
      (given) => Option.filter(Num.parse(given), (n) => Number.isInteger(n) && n >= least && n <= most),
      `--${name} is a number from ${least} to ${most}`
    )
  )

export const json = flag("json", "one JSON document on standard output")
export const plane = optionalText("plane", "id", "production, or a testing environment's UUID")
export const reporter = optionalText("reporter", "who", "a public id, or anonymous, or unverified")

const spans: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Milliseconds since the epoch. */
export const since = text(
  "since",
  "time",
  "earliest: 2026-11-21, 2026-11-21T07:30:00Z, or 30m, 24h, 7d ago"
).pipe(
  Options.mapEffect((given) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const [, amount, unit = ""] = /^(\d{1,5})([mhd])$/.exec(given) ?? []
      const isDate = /^\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:\d\d))?$/.test(given)
      const at = isDate ? Date.parse(given) : now - Number(amount) * (spans[unit] ?? 0)
      return Number.isNaN(at)
        ? misuse(`--since ${given} is not a time: write 2026-11-21, 2026-11-21T07:30:00Z, 30m, 24h or 7d`)
        : Effect.succeed(at)
    })
  ),
  Options.optional
)

export const page = Options.all({
  limit: Options.withDefault(count("limit", 1, 1_000, "maximum number of results (default 20)"), 20),
  after: optionalText("after", "page", "cursor that the previous page printed")
})
