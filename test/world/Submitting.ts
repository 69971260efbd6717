/** Submitting a report, for the tests of reports. */
import { Effect, Option, type Redacted } from "effect"
import type { ReportRequest } from "../../src/schema/Report.ts"
import type { Plane } from "../../src/services/Plane.ts"
import { Reports } from "../../src/services/usecases/Reports.ts"
import { StoreSwitches } from "./TestStore.ts"
import { callerKey, inRequest, production } from "./UseCaseLayers.ts"

export const message = "Playback stops after a seek near the end."
const request: ReportRequest = { message }

interface Submission {
  readonly request?: ReportRequest
  readonly key?: Redacted.Redacted
  readonly token?: Redacted.Redacted
  readonly organisation?: string
  readonly plane?: Plane
  readonly clientNetwork?: string
}

export const submit = (submission: Submission = {}) =>
  Effect.flatMap(Reports, (reports) =>
    reports.submit(submission.plane ?? production, {
      request: submission.request ?? request,
      key: submission.key ?? callerKey("report"),
      credential: Option.map(Option.fromNullable(submission.token), (token) => ({
        token,
        organisation: submission.organisation ?? "acme"
      }))
    })
  ).pipe(
    inRequest({
      source: "daemon",
      requestId: "request-of-report",
      clientNetwork: submission.clientNetwork ?? "192.0.2.1"
    })
  )

/** The stored reports, newest last. */
export const admitted = Effect.flatMap(StoreSwitches, (store) => store.seen("reports.admit"))
