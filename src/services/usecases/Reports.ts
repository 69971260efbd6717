import { createHmac, randomUUID } from "node:crypto"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { constVoid } from "effect/Function"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { Failure, refuseField } from "../../schema/Failure.ts"
import type { ReportRequest } from "../../schema/Report.ts"
import type { Credential } from "../../schema/Identity.ts"
import { orderedUuid } from "../../schema/Patterns.ts"
import { siteOf } from "../Addresses.ts"
import { makeQuota, takeAll } from "../combinators/Quota.ts"
import { canonicalJson, digestOf, randomHex, sha256 } from "../Digest.ts"
import { countReplay } from "../Metrics.ts"
import { type Plane, planeId } from "../Plane.ts"
import { redactReport } from "../text/Redaction.ts"
import { logAndMapStoreFailure } from "../StoreFailures.ts"
import { monotonicMillis } from "../MonotonicTime.ts"
import { RequestContext } from "../RequestContext.ts"
import { Sessions } from "./Sessions.ts"
import { Settings } from "../Settings.ts"
import {
  Anonymous,
  type ReportAdmission,
  type ReportContent,
  type Reporter,
  type ReportRoom,
  Store,
  Unverified,
  Verified
} from "../Store.ts"

// Who may store how many reports (docs/limits.md, "Stored reports"). Verified reporters are counted by public id and plane, all others by
// client address, also those with a token that IAM could not verify: any text in a token's form would pass otherwise.

const makeQuotas = (perMinute: number, perHour: number) => [
  makeQuota({ name: "reports", quota: perMinute, windowSeconds: 60 }),
  makeQuota({ name: "reports", quota: perHour, windowSeconds: 3_600 })
]

/** Makes the function that takes the uses of a new report (`takeAll`). A report that is not stored gives them back. */
export const makeReportQuota = (rateLimit: boolean) => {
  const byAddress = makeQuotas(10, 60)
  const byReporter = makeQuotas(30, 300)

  /** Runs before the report is stored: counted afterwards, many concurrent reports would all pass. `now` is monotonic milliseconds. */
  return (plane: Plane, reporter: Reporter, clientNetwork: string, now: number) => {
    const isVerified = reporter._tag === "Verified"
    const key = isVerified ? `${planeId(plane)} ${reporter.publicId}` : clientNetwork
    const quotas = isVerified ? byReporter : byAddress
    return takeAll(rateLimit ? quotas.map((quota) => [quota, key]) : [], now)
  }
}

/** Parts of the room. `bound` is `MUSIC_REPORTS_MEGABYTES` in bytes. */
export const roomOf = (bound: number): ReportRoom => ({
  unboundUpTo: bound / 2,
  reporter: bound / 10,
  network: bound / 50,
  all: bound * 0.8,
  withNewcomers: bound
})

/**
 * The digest of the network of a client's address or /64 (`RequestContext`). The key is a secret of the server, so that a reader of the
 * database alone cannot try all addresses; instances with the same secret make the same digests.
 */
const networkDigest = (secret: Redacted.Redacted, clientNetwork: string): string => {
  const network = siteOf(clientNetwork).split(".", 3).join(".")
  return createHmac("sha256", Redacted.value(secret))
    .update(`music report network v1\n${network}`)
    .digest("hex")
}

/** For IAM to verify the reporter; after that the report is stored unverified. */
const longestVerification = "3 seconds"

const contentOf = ({ message, pr, attachments, context }: ReportRequest): ReportContent =>
  redactReport({ message, pr: pr ?? null, attachments: attachments ?? [], context: context ?? null })

interface Submission {
  readonly request: ReportRequest
  readonly key: Redacted.Redacted
  readonly credential: Option.Option<Credential>
}

/** While `MUSIC_REPORTS_ANONYMOUS` is off: the failure of a new report without a verified reporter. */
const makeUnnamedRefusal = ({ _tag }: Reporter) =>
  _tag === "Anonymous"
    ? new Failure("unauthenticated")
    : new Failure("dependency_unavailable", { details: { dependency: "iam" } })

/** Retry-After in seconds. The hourly retention or an operator frees room. */
const fullPause = 3_600

/** Stores each bug report once; its delivery to the tracker is enqueued in the same transaction. */
export class Reports extends Effect.Service<Reports>()("music/Reports", {
  effect: Effect.gen(function* () {
    const settings = yield* Settings
    const store = yield* Store
    const { authenticate } = yield* Sessions
    const takeQuota = makeReportQuota(settings.rateLimit)
    const room = roomOf(settings.reportsBytes)

    const resolveReporter = (plane: Plane, credential: Option.Option<Credential>) =>
      Option.isNone(credential)
        ? Effect.succeed<Reporter>(Anonymous())
        : authenticate(plane, credential.value).pipe(
            Effect.map(({ actor }): Reporter => Verified({ publicId: actor.public_id })),
            Effect.timeoutFail({
              duration: longestVerification,
              onTimeout: () => new Failure("dependency_unavailable")
            }),
            // These do not concern the token itself: IAM could not verify it.
            Effect.catchTag(
              "rate_limited",
              "overloaded",
              "dependency_unavailable",
              "dependency_misconfigured",
              () => Effect.succeed<Reporter>(Unverified())
            )
          )

    const isOfRepository = (pr: string): boolean => {
      if (Option.isNone(settings.repository)) return true
      const { owner, repository, url } = settings.repository.value
      const { hostname, pathname } = new URL(pr)
      return (
        // Only github.com has its API on another host than its pages.
        ["github.com", new URL(url).hostname].includes(hostname) &&
        pathname.toLowerCase().startsWith(`/${owner}/${repository}/pull/`.toLowerCase())
      )
    }

    const submit = Effect.fnUntraced(function* (plane: Plane, { credential, key, request }: Submission) {
      if (typeof request.pr === "string" && !isOfRepository(request.pr))
        return yield* refuseField("pr", "must be a pull request of the configured repository")
      const reporter = yield* resolveReporter(plane, credential)
      const { clientNetwork, requestId, source } = yield* RequestContext
      const keyed = { plane: planeId(plane), keyDigest: digestOf(key) }
      const isKnown = yield* logAndMapStoreFailure(store.reports.knowsKey(keyed))
      const { giveBack, refusal } =
        reporter._tag === "Verified" || settings.anonymousReports
          ? takeQuota(plane, reporter, clientNetwork, yield* monotonicMillis)
          : { refusal: makeUnnamedRefusal(reporter), giveBack: constVoid }
      // A refused one costs neither a digest of its content nor a transaction.
      if (refusal !== undefined && !isKnown) return yield* refusal
      // Neither a refused report nor a repetition is redacted, which is most of a report's work. A new one is redacted here: inside the
      // transaction all others would wait for it.
      const redacted = isKnown ? undefined : contentOf(request)
      const counts = (answer: ReportAdmission): boolean =>
        answer._tag === "Stored" ||
        // Else one sender could have any number of reports redacted for which there is no room.
        (answer._tag === "Full" && refusal === undefined)
      const createdAt = yield* Clock.currentTimeMillis
      const report = {
        ...keyed,
        id: `rep_${orderedUuid(createdAt, randomUUID()).replaceAll("-", "")}`,
        reporter,
        get content() {
          return redacted ?? contentOf(request)
        },
        source,
        requestId,
        createdAt,
        marker: randomHex(16),
        contentDigest: sha256(canonicalJson(request)),
        // A gateway that limits instead may send the requests of all clients from one address.
        network: settings.rateLimit ? networkDigest(settings.iam.applicationSecret, clientNetwork) : undefined
      }
      const isFiled = plane._tag === "Production" && Option.isSome(settings.tracker)
      // A report that was stored before is answered without quota or room: its first response may have been lost.
      const admission = yield* store.reports.admit(report, isFiled, room, refusal === undefined).pipe(
        logAndMapStoreFailure,
        Effect.onExit((exit) =>
          Effect.sync(() => {
            if (Exit.isFailure(exit) || !counts(exit.value)) giveBack()
          })
        )
      )
      const replayed = admission._tag === "Replayed"
      countReplay("report", replayed)
      if (admission._tag === "Conflict") return yield* new Failure("idempotency_conflict")
      if (admission._tag === "Full")
        return yield* refusal ??
          new Failure("reports_full", { retryAfterSeconds: fullPause, details: { reason: admission.limit } })
      const stored = replayed ? admission.report : { id: report.id, createdAt, issueUrl: Option.none() }
      return {
        id: stored.id,
        status: Option.isSome(stored.issueUrl) ? ("filed" as const) : ("stored" as const),
        issue_url: Option.getOrNull(stored.issueUrl),
        // The caller: a named report of another person is never replayed to one whom IAM verified.
        reporter: reporter._tag === "Verified" ? reporter.publicId : null,
        created_at: new Date(stored.createdAt).toISOString(),
        replayed
      }
    })

    return { submit } as const
  })
}) {}
