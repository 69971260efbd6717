import * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import { printJson } from "../Screen.ts"

export const openapi = Command.make("openapi", {}, () =>
  Effect.gen(function* () {
    const { openApi } = yield* Effect.promise(() => import("../../http/openapi/OpenApiDocument.ts"))
    yield* printJson(openApi())
  })
).pipe(Command.withDescription("Prints the API's contract, as GET /openapi.json serves it"))
