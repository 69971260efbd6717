import * as Effect from "effect/Effect"
import { Descriptors } from "../../services/Descriptors.ts"
import { iam, version } from "../api/Descriptors.ts"
import { handle } from "./Handler.ts"

export const descriptorHandlers = Effect.map(Descriptors, (descriptors) => ({
  iam: handle(iam, ({ plane }) => descriptors.iam(plane)),
  version: handle(version, () => descriptors.version)
}))
