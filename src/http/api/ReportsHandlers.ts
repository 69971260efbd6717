import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import { actorTypeOf } from "../../schema/Identity.ts"
import { Reports } from "../../services/Reports.ts"
import { Api } from "../Api.ts"
import { Calls, noteActor } from "../middleware/Calls.ts"
import { PerhapsCredential, SentKey } from "./Middleware.ts"

export const ReportsHandlers = HttpApiBuilder.group(Api, "reports", (handlers) =>
  Effect.gen(function* () {
    const { inPlane } = yield* Calls
    const reports = yield* Reports
    return handlers.handle("submit", ({ payload: request }) =>
      inPlane((plane) =>
        Effect.flatMap(PerhapsCredential, (credential) =>
          Effect.flatMap(SentKey, (key) => reports.submit(plane, { request, key, credential }))
        )
      ).pipe(
        // A report names its reporter only when IAM vouched for them during this request.
        Effect.tap(({ reporter }) => reporter !== null && noteActor(actorTypeOf(reporter)))
      )
    )
  })
)
