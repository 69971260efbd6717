import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import { CallerKey } from "../../services/Caller.ts"
import { Reports } from "../../services/Reports.ts"
import { Api } from "../Api.ts"
import { submit } from "../api/Reports.ts"
import { Gate } from "./Gate.ts"

export const ReportsLive = HttpApiBuilder.group(Api, "reports", (handlers) =>
  Effect.gen(function* () {
    const reports = yield* Reports
    const { signed } = yield* Gate
    return handlers.handle("submit", ({ payload }) =>
      Effect.flatMap(CallerKey, (key) =>
        signed(submit, (plane, credential) => reports.submit(plane, { request: payload, key, credential }))
      )
    )
  })
)
