import { randomUUID } from "node:crypto"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import { Failure } from "../../schema/Failure.ts"
import type { Report, ReportRequest } from "../../schema/Report.ts"
import type { Credential } from "../../schema/Identity.ts"
import { orderedUuid } from "../../schema/Patterns.ts"
import { canonicalJson, digestOf, randomHex, sha256 } from "../Digest.ts"
import { countReplay } from "../Metrics.ts"
import { type Plane, planeId } from "../Plane.ts"
import { redactReport } from "../text/Redaction.ts"
import { logAndMapStoreFailure } from "../StoreFailures.ts"
import { makeNetworkDigest, makeReportQuota, makeReportsFull, roomOf } from "./ReportLimits.ts"
import { monotonicMillis } from "../MonotonicTime.ts"
import { RequestContext } from "../RequestContext.ts"
import { Sessions } from "./Sessions.ts"
import { Settings } from "../Settings.ts"
import {
  Anonymous,
  type ReportAdmission,
  type ReportContent,
  type Reporter,
  Store,
  Unverified,
  Verified
} from "../Store.ts"

/** Milliseconds for IAM to verify the reporter; after that the report is stored unverified. */
const verificationMillis = 3_000

/** Failures that do not concern the token itself: IAM could not verify it. */
const notVerified = () => Effect.succeed<Reporter>(Unverified())

const contentOf = ({ message, pr, attachments, context }: ReportRequest): ReportContent =>
  redactReport({ message, pr: pr ?? null, attachments: attachments ?? [], context: context ?? null })

/** A verified reader is the reporter: the store replays a named report to its reporter, and to readers whom IAM did not verify. */
const toReport = (
  reader: Reporter,
  id: string,
  createdAt: number,
  issueUrl: Option.Option<string>,
  replayed: boolean
): Report => ({
  id,
  status: Option.isSome(issueUrl) ? "filed" : "stored",
  issue_url: Option.getOrNull(issueUrl),
  reporter: reader._tag === "Verified" ? reader.publicId : null,
  created_at: new Date(createdAt).toISOString(),
  replayed
})

/** While `MUSIC_REPORTS_ANONYMOUS` is off: the failure of a new report without a verified reporter. */
const makeUnnamedRefusal = ({ _tag }: Reporter) =>
  _tag === "Anonymous"
    ? new Failure("unauthenticated", {
        hint: "This service takes reports of signed-in callers only: log in, and send it with `Authorization: Bearer oat_…`."
      })
    : new Failure("dependency_unavailable", { details: { dependency: "iam" } })

const otherRepository = () =>
  new Failure("invalid_input", {
    details: { fields: [{ path: "pr", problem: "must be a pull request of the configured repository" }] }
  })

/** Stores each bug report once; its delivery to the tracker is enqueued in the same transaction. */
export class Reports extends Effect.Service<Reports>()("music/Reports", {
  effect: Effect.gen(function* () {
    const settings = yield* Settings
    const store = yield* Store
    const { authenticate } = yield* Sessions
    const takeQuota = makeReportQuota(settings.rateLimit)
    const room = roomOf(settings.reportsBytes)
    // A gateway that limits instead may send the requests of all clients from one address.
    const networkOf = settings.rateLimit ? makeNetworkDigest(settings.iam.applicationSecret) : () => undefined

    const resolveReporter = (plane: Plane, credential: Option.Option<Credential>) =>
      Option.match(credential, {
        onNone: () => Effect.succeed<Reporter>(Anonymous()),
        onSome: (given) =>
          authenticate(plane, given, verificationMillis).pipe(
            Effect.map(({ actor }): Reporter => Verified({ publicId: actor.public_id })),
            Effect.catchTags({
              rate_limited: notVerified,
              overloaded: notVerified,
              dependency_unavailable: notVerified,
              dependency_misconfigured: notVerified
            })
          )
      })

    const isOfRepository = (pr: string): boolean =>
      Option.match(settings.repository, {
        onNone: () => true,
        onSome: ({ owner, repository, url }) => {
          const { hostname, pathname } = new URL(pr)
          // Only github.com has its API on another host than its pages.
          const hosts = ["github.com", ...(url === "https://api.github.com" ? [] : [new URL(url).hostname])]
          return (
            hosts.includes(hostname) &&
            pathname.toLowerCase().startsWith(`/${owner}/${repository}/pull/`.toLowerCase())
          )
        }
      })

    const submit = Effect.fnUntraced(function* (
      plane: Plane,
      input: {
        readonly request: ReportRequest
        readonly key: Redacted.Redacted
        readonly credential: Option.Option<Credential>
      }
    ) {
      const { request, key, credential } = input
      if (typeof request.pr === "string" && !isOfRepository(request.pr)) return yield* otherRepository()
      const reporter = yield* resolveReporter(plane, credential)
      const { clientNetwork, requestId, source } = yield* RequestContext
      const keyed = { plane: planeId(plane), keyDigest: digestOf(key) }
      const isKnown = yield* logAndMapStoreFailure(store.reports.knowsKey(keyed))
      const quota = takeQuota(plane, reporter, clientNetwork, yield* monotonicMillis)
      const isTaken = reporter._tag === "Verified" || settings.anonymousReports
      const refusal = isTaken ? quota.refusal : makeUnnamedRefusal(reporter)
      // A refused one costs neither a digest of its content nor a transaction.
      if (refusal !== undefined && !isKnown) {
        quota.giveBack()
        return yield* refusal
      }
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
        network: networkOf(clientNetwork)
      }
      const isFiled = plane._tag === "Production" && Option.isSome(settings.tracker)
      // A report that was stored before is answered without quota or room: its first response may have been lost.
      const admission = yield* store.reports.admit(report, isFiled, room, refusal === undefined).pipe(
        logAndMapStoreFailure,
        Effect.onExit((exit) =>
          Effect.sync(() => {
            if (Exit.isFailure(exit) || !counts(exit.value)) quota.giveBack()
          })
        )
      )
      countReplay("report", admission._tag === "Replayed")
      switch (admission._tag) {
        case "Conflict":
          return yield* new Failure("idempotency_conflict")
        case "Full":
          if (refusal !== undefined) return yield* refusal
          return yield* makeReportsFull(admission.limit)
        case "Stored":
          return toReport(reporter, report.id, createdAt, Option.none(), false)
        case "Replayed": {
          const { id, createdAt: storedAt, issueUrl } = admission.report
          return toReport(reporter, id, storedAt, issueUrl, true)
        }
      }
    })

    return { submit } as const
  })
}) {}
