/** The `Iam` port over IAM's HTTP API. */
import * as HttpClient from "@effect/platform/HttpClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import { Iam } from "../../services/Iam.ts"
import type { Plane } from "../../services/Plane.ts"
import { Settings } from "../../services/Settings.ts"
import { makeCredentialCache } from "./budget/CredentialCache.ts"
import { makeIamBudget } from "./budget/IamBudget.ts"
import { makeTingEndpoints } from "./TingEndpoints.ts"
import { makeOboProof } from "./OboProof.ts"
import { makeIamCall, type PlaneCall } from "./IamCall.ts"
import { makeIntrospection } from "./Introspection.ts"
import { makeIntrospectionHealth } from "./IntrospectionHealth.ts"
import { makeTestingContext } from "./TestingContext.ts"
import { makeTokenExchange } from "./TokenExchange.ts"
import { makeWebhookVerifier } from "./WebhookSignature.ts"

export const HttpIam: Layer.Layer<Iam, never, Settings | HttpClient.HttpClient> = Layer.scoped(
  Iam,
  Effect.gen(function* () {
    const { iam: settings, rateLimit } = yield* Settings
    const client = yield* HttpClient.HttpClient
    const call = makeIamCall(client, settings)
    const { applicationId } = settings
    const credentials = makeCredentialCache()
    const budget = makeIamBudget(
      { callsPerMinute: settings.callsPerMinute, countAddresses: rateLimit },
      credentials
    )
    const testingContext = yield* makeTestingContext(call, applicationId, budget, credentials)

    const secretOf = (plane: Plane): Redacted.Redacted =>
      plane._tag === "Testing" ? plane.secret : settings.applicationSecret

    const planeCall: PlaneCall = (plane, request) =>
      Effect.tapError(
        call({ secret: secretOf(plane), testing: plane._tag === "Testing" }, request),
        (failure) =>
          plane._tag === "Testing" &&
          failure._tag === "Refused" &&
          (failure.code === "invalid_client" || failure.code === "unauthenticated")
            ? testingContext.forget(plane.secret)
            : Effect.void
      )

    const health = yield* makeIntrospectionHealth(planeCall, budget)
    const introspection = yield* makeIntrospection(health.send, budget, credentials, {
      applicationId,
      cacheSeconds: settings.introspectionCacheSeconds
    })
    const tokens = makeTokenExchange(planeCall, budget, credentials, health, introspection, applicationId)
    const catalogue = yield* makeTingEndpoints(planeCall, budget)

    return {
      ...tokens,
      introspect: introspection.introspect,
      resolvePlane: testingContext.resolvePlane,
      prove: makeOboProof(planeCall, budget, catalogue, secretOf),
      warmCatalogue: catalogue.warm,
      verifyWebhook: makeWebhookVerifier(settings.webhookSecrets)
    }
  })
)
