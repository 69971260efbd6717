import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import { actorTypeOf } from "../../schema/Identity.ts"
import type { Report } from "../../schema/Report.ts"
import { CallerKey } from "../../services/RequestCredentials.ts"
import { Reports } from "../../services/Reports.ts"
import { Api } from "../Api.ts"
import { submit } from "../api/Reports.ts"
import { RequestGuard, recordActor } from "../middleware/RequestGuard.ts"

/** A report names its reporter only when IAM vouched for them during this request. */
const recordReporter = ({ reporter }: Report): Effect.Effect<void> =>
  reporter === null ? Effect.void : recordActor(actorTypeOf(reporter))

export const ReportsLive = HttpApiBuilder.group(Api, "reports", (handlers) =>
  Effect.gen(function* () {
    const reports = yield* Reports
    const { serveWithOptionalBearer } = yield* RequestGuard
    return handlers.handleRaw(
      "submit",
      serveWithOptionalBearer(submit, (plane, credential, request) =>
        Effect.flatMap(CallerKey, (key) =>
          Effect.tap(reports.submit(plane, { request, key, credential }), recordReporter)
        )
      )
    )
  })
)
