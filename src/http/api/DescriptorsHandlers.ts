import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import { Descriptors } from "../../services/Descriptors.ts"
import { Api } from "../Api.ts"
import { Calls } from "../middleware/Calls.ts"

export const DescriptorsHandlers = HttpApiBuilder.group(Api, "descriptors", (handlers) =>
  Effect.gen(function* () {
    const { inPlane, metered } = yield* Calls
    const descriptors = yield* Descriptors
    return handlers
      .handle("iam", () => inPlane(descriptors.iam))
      .handle("version", () => metered(() => descriptors.version))
  })
)
