import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Effect from "effect/Effect"
import { bodyLimits } from "../../schema/BodyLimits.ts"
import { actorTypeOf } from "../../schema/Identity.ts"
import { Report, ReportRequest } from "../../schema/Report.ts"
import { Reports } from "../../services/usecases/Reports.ts"
import { Calls, noteActor } from "../middleware/Calls.ts"
import {
  IdempotencyKey,
  OptionalBearer,
  PerhapsCredential,
  PlaneSelection
} from "../middleware/SentHeaders.ts"
import { failures, Traits, withBody } from "./Endpoint.ts"

export const submit = HttpApiEndpoint.post("submit", "/api/v1/reports")
  .setPayload(ReportRequest)
  .addSuccess(Report)
  .addError(failures(...withBody, "idempotency_conflict", "reports_full"))
  .middleware(PlaneSelection)
  .middleware(OptionalBearer)
  .middleware(IdempotencyKey)
  .annotate(Traits, { bodyBound: bodyLimits.report })
  // The library knows no optional bearer.
  .annotate(OpenApi.Transform, (operation) => ({ ...operation, security: [...operation.security, {}] }))
  .annotate(OpenApi.Summary, "Report a bug")
  .annotate(
    OpenApi.Description,
    "Stored before it is acknowledged, and filed as an issue when a tracker is configured. Signing in is optional: with `Authorization` the report has your public id, a refused token is 401, and the report is stored also during an outage of the identity service. Text in the form of a credential is replaced before the report is stored."
  )

export class ReportsApi extends HttpApiGroup.make("reports")
  .add(submit)
  .annotate(OpenApi.Title, "Reports")
  .annotate(OpenApi.Description, "Bug reports") {}

export const ReportsLive = HttpApiBuilder.group(
  HttpApi.make("music").add(ReportsApi),
  "reports",
  (handlers) =>
    Effect.gen(function* () {
      const { keyed } = yield* Calls
      const reports = yield* Reports
      return handlers.handle("submit", ({ payload: request }) =>
        keyed((plane, key) =>
          Effect.flatMap(PerhapsCredential, (credential) =>
            reports.submit(plane, { request, key, credential })
          )
        ).pipe(
          // A report names its reporter only when IAM vouched for them during this request.
          Effect.tap(({ reporter }) => reporter !== null && noteActor(actorTypeOf(reporter)))
        )
      )
    })
)
