import * as Effect from "effect/Effect"
import { expect } from "vitest"
import { requestedScopes } from "../../src/schema/Identity.ts"
import { version } from "../../src/schema/Release.ts"
import { Descriptors } from "../../src/services/usecases/Descriptors.ts"
import { SimulatedIam } from "../world/SimulatedIam.ts"
import { production, scenariosWith } from "../world/UseCaseLayers.ts"

const settings = { minCli: "0.7.0", organisation: "harbor", iam: { url: "https://iam.example" } }
scenariosWith({ settings })("The descriptors name the versions, a login, and the plane", function* () {
  const { iam, version: describeVersion } = yield* Effect.provide(Descriptors, Descriptors.Default)
  const { plane } = yield* (yield* SimulatedIam).environment("e2e")
  expect(yield* describeVersion).toEqual({ version, api_versions: ["v1"], min_cli: "0.7.0" })
  for (const where of [production, plane])
    expect(yield* iam(where)).toEqual({
      app_id: "music",
      org_id: "harbor",
      api_version: "v1",
      iam_url: "https://iam.example",
      ting_url: "http://127.0.0.1:1",
      testing_environment_id: where._tag === "Testing" ? where.environmentId : null,
      ting_types: ["music.trigger.fired", "music.trigger.expired"],
      scopes: [...requestedScopes],
      version
    })
})
