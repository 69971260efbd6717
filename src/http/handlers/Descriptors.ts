import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import { Descriptors } from "../../services/Descriptors.ts"
import { Api } from "../Api.ts"
import { iam, version } from "../api/Descriptors.ts"
import { RequestGuard } from "../middleware/RequestGuard.ts"

export const DescriptorsLive = HttpApiBuilder.group(Api, "descriptors", (handlers) =>
  Effect.gen(function* () {
    const descriptors = yield* Descriptors
    const { serveInPlane, serveOpen } = yield* RequestGuard
    return handlers.handle("iam", serveInPlane(iam, descriptors.iam)).handle(
      "version",
      serveOpen(version, () => descriptors.version)
    )
  })
)
