import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import type { Report } from "../../schema/Report.ts"
import { CallerKey } from "../../services/RequestCredentials.ts"
import { Reports } from "../../services/Reports.ts"
import { Api } from "../Api.ts"
import { submit } from "../api/Reports.ts"
import { RequestGuard, knownActor } from "./RequestGuard.ts"

/** The reporter is named when IAM vouched for them just now. */
const told = ({ reporter }: Report): Effect.Effect<void> =>
  reporter === null ? Effect.void : knownActor({ type: reporter.startsWith("si:") ? "silicon" : "carbon" })

export const ReportsLive = HttpApiBuilder.group(Api, "reports", (handlers) =>
  Effect.gen(function* () {
    const reports = yield* Reports
    const { signed } = yield* RequestGuard
    return handlers.handle("submit", ({ payload }) =>
      Effect.flatMap(CallerKey, (key) =>
        signed(submit, (plane, credential) =>
          Effect.tap(reports.submit(plane, { request: payload, key, credential }), told)
        )
      )
    )
  })
)
