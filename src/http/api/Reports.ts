import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import { Report, ReportRequest } from "../../schema/Report.ts"
import { bodyLimits } from "../../schema/BodyLimits.ts"
import { BodyBound } from "./EndpointAnnotations.ts"
import { admission, always, body, failures, plane, session } from "./Failures.ts"
import { ReportHeaders } from "./DocumentedHeaders.ts"
import { IdempotencyKey, OptionalBearer, PlaneSelection } from "./Middleware.ts"

export const submit = HttpApiEndpoint.post("submit", "/api/v1/reports")
  .setHeaders(ReportHeaders)
  .setPayload(ReportRequest)
  .addSuccess(Report)
  .addError(always)
  .addError(admission)
  .addError(body)
  .addError(plane)
  .addError(session)
  .addError(failures("idempotency_conflict", "reports_full"))
  .middleware(PlaneSelection)
  .middleware(OptionalBearer)
  .middleware(IdempotencyKey)
  .annotate(BodyBound, bodyLimits.report)
  .annotateContext(
    OpenApi.annotations({
      summary: "Report a bug",
      description:
        "Stored before it is answered, and filed as an issue when a tracker is configured. Signing in is optional: with `Authorization` the report is yours, a refused token is 401, and an outage of the identity service stores it all the same. Text that has the form of a credential is replaced before anything is stored."
    })
  )

export class ReportsApi extends HttpApiGroup.make("reports")
  .add(submit)
  .annotateContext(OpenApi.annotations({ description: "Bug reports" })) {}
