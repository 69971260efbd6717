import * as Effect from "effect/Effect"
import { actorTypeOf } from "../../schema/Identity.ts"
import { Reports } from "../../services/Reports.ts"
import { submit } from "../api/Reports.ts"
import { handle } from "./Handler.ts"

export const reportHandlers = Effect.map(Reports, (reports) => ({
  submit: handle(
    submit,
    ({ credential, key, payload, plane }) => reports.submit(plane, { request: payload, key, credential }),
    // A report names its reporter only when IAM vouched for them during this request.
    ({ reporter }) => (reporter === null ? undefined : actorTypeOf(reporter))
  )
}))
