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
        "Stored before it is acknowledged, and filed as an issue when a tracker is configured. Signing in is optional: with `Authorization` the report has your public id, a refused token is 401, and the report is stored also during an outage of the identity service. Text in the form of a credential is replaced before the report is stored."
    })
  )

export class ReportsApi extends HttpApiGroup.make("reports")
  .add(submit)
  .annotateContext(OpenApi.annotations({ title: "Reports", description: "Bug reports" })) {}
