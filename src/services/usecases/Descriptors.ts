import * as Effect from "effect/Effect"
import type { IamDescriptor, Version } from "../../schema/System.ts"
import { requestedScopes } from "../../schema/Identity.ts"
import { version } from "../../schema/Release.ts"
import { environmentIdOf, type Plane } from "../Plane.ts"
import { Settings } from "../Settings.ts"

/** What the service publishes about itself: its version, and the parameters of a login. */
export class Descriptors extends Effect.Service<Descriptors>()("music/Descriptors", {
  effect: Effect.gen(function* () {
    const settings = yield* Settings

    const about: Effect.Effect<Version> = Effect.succeed({
      version,
      api_versions: ["v1"],
      min_cli: settings.minCli
    })

    const iam = (plane: Plane): Effect.Effect<IamDescriptor> =>
      Effect.succeed({
        app_id: settings.iam.applicationId,
        org_id: settings.organisation,
        api_version: "v1",
        iam_url: settings.iam.url,
        ting_url: settings.ting.url,
        testing_environment_id: environmentIdOf(plane),
        ting_types: settings.ting.types,
        scopes: requestedScopes,
        version
      })

    return { version: about, iam } as const
  })
}) {}
