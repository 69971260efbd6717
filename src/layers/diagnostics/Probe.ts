/** What `music-backend check` consists of: probes. Each gives one line for an operator, and with a problem its fix. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { StoreUnavailable } from "../../services/Store.ts"
import type { UpstreamFailure } from "../../services/UpstreamFailure.ts"

/** FAIL: the server would not work, or not fully; WARN: needs attention; SKIP: not configured or not checkable. */
export type Status = "PASS" | "WARN" | "FAIL" | "SKIP"

export interface Finding {
  readonly name: string
  readonly status: Status
  /** Holds no credential, and of another system only codes. */
  readonly found: string
  readonly fix: string | null
}

export type Verdict = Omit<Finding, "name">

export const pass = (found: string): Verdict => ({ status: "PASS", found, fix: null })
export const warn = (found: string, fix: string): Verdict => ({ status: "WARN", found, fix })
export const fail = (found: string, fix: string): Verdict => ({ status: "FAIL", found, fix })
export const skip = (found: string, fix: string | null = null): Verdict => ({ status: "SKIP", found, fix })

/**
 * What a failed call means, by the code or status of a refusal, as `unreached` without a connection, or else as `otherwise`.
 * What is not listed shows nothing about the settings.
 */
type Fixes = Readonly<Record<string, readonly [found: string, fix: string]>>

/** `needs` names settings that must be good, and probes before this one that must pass. */
export const probe = (
  name: string,
  needs: ReadonlyArray<string>,
  run: Effect.Effect<Verdict, UpstreamFailure | StoreUnavailable>,
  fixes: Fixes = {}
) => ({ name, needs, run, fixes })

export type CheckProbe = ReturnType<typeof probe>

const judgeFailure = (failure: UpstreamFailure | StoreUnavailable, fixes: Fixes): Verdict => {
  if (failure._tag === "StoreUnavailable")
    return (failure.code === "older" ? warn : fail)(failure.summary, failure.fix)
  const [said, known] =
    failure._tag === "Refused"
      ? [`it answered ${failure.status} ${failure.code}`, fixes[failure.code] ?? fixes[failure.status]]
      : failure._tag === "NotExecuted" && failure.retryAfterSeconds === undefined
        ? [failure.reason, fixes.unreached]
        : [failure.reason]
  const meant = known ?? fixes.otherwise
  return meant === undefined
    ? warn(`not verifiable now: ${said}`, "run the check again")
    : fail(`${meant[0]}: ${said}`, meant[1])
}

/** One finding for each probe, in at most 20 seconds. All run at once, except that each waits for those that it needs. */
export const runProbes = (
  probes: ReadonlyArray<CheckProbe>,
  isBad: (setting: string) => boolean
): Effect.Effect<ReadonlyArray<Finding>> =>
  Effect.gen(function* () {
    const findings = new Map<string, Effect.Effect<Finding>>()
    for (const { fixes, name, needs, run } of probes) {
      const finding = Effect.all(needs.flatMap((need) => findings.get(need) ?? [])).pipe(
        Effect.flatMap((found) => {
          const failed = found.filter(({ status }) => status !== "PASS").map((one) => one.name)
          const lacks = [...needs.filter(isBad), ...failed]
          return lacks.length === 0 ? run : Effect.succeed(skip(`needs ${lacks.join(" and ")}`))
        }),
        Effect.catchAll((failure) => Effect.succeed(judgeFailure(failure, fixes))),
        Effect.timeoutOption("20 seconds"),
        Effect.map(Option.getOrElse(() => fail("no result within 20 seconds", "run the check again"))),
        Effect.map((verdict) => ({ name, ...verdict }))
      )
      findings.set(name, yield* Effect.cached(finding))
    }
    return yield* Effect.all([...findings.values()], { concurrency: "unbounded" })
  })
