import { describe } from "vitest"
import { it } from "../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import type { IamDescriptor } from "../../src/schema/Descriptors.ts"
import { requestedScopes } from "../../src/schema/Identity.ts"
import { version } from "../../src/schema/Release.ts"
import { Descriptors } from "../../src/services/Descriptors.ts"
import { SimulatedIam } from "../support/SimulatedIam.ts"
import { production, withUseCases } from "../support/UseCaseLayers.ts"

const described = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  withUseCases(Effect.provide(effect, Descriptors.Default), {
    settings: { minCli: "0.7.0", organisation: "harbor", iam: { url: "https://iam.example" } }
  })

describe("version", () => {
  it.effect("names this version, the API versions and the oldest client", () =>
    described(
      Effect.gen(function* () {
        deepStrictEqual(yield* (yield* Descriptors).version, {
          version,
          api_versions: ["v1"],
          min_cli: "0.7.0"
        })
      })
    )
  )
})

describe("the IAM descriptor", () => {
  it.effect("returns the parameters of a login, and the plane", () =>
    described(
      Effect.gen(function* () {
        const { iam } = yield* Descriptors
        const { plane } = yield* (yield* SimulatedIam).environment("e2e")
        const expected: IamDescriptor = {
          app_id: "music",
          org_id: "harbor",
          api_version: "v1",
          iam_url: "https://iam.example",
          ting_url: "http://127.0.0.1:1",
          testing_environment_id: null,
          ting_types: ["music.trigger.fired", "music.trigger.expired"],
          scopes: [...requestedScopes],
          version
        }
        deepStrictEqual(yield* iam(production), expected)
        deepStrictEqual(yield* iam(plane), {
          ...expected,
          testing_environment_id: plane.environmentId
        })
      })
    )
  )
})
