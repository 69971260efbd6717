/** The `Iam` port over IAM's HTTP API. */
import * as HttpClient from "@effect/platform/HttpClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import { Iam } from "../../services/Iam.ts"
import type { Plane } from "../../services/Plane.ts"
import { Settings } from "../../services/Settings.ts"
import { Store } from "../../services/Store.ts"
import { makeIamBudget } from "./budget/IamBudget.ts"
import { makeKnownCredentials } from "./budget/KnownCredentials.ts"
import { makeRefusedCredentials } from "./budget/RefusedCredentials.ts"
import { makeIamCall, type PlaneCall } from "./IamCall.ts"
import { makeIntrospection } from "./Introspection.ts"
import { makeIntrospectionHealth } from "./IntrospectionHealth.ts"
import { makeSecretWatch, refusesSecret } from "./OwnSecret.ts"
import { makeProofExchange } from "./ProofExchange.ts"
import { makeRevocation } from "./Revocation.ts"
import { makeStoredSessions } from "./StoredSessions.ts"
import { handOver } from "./SucceedingProcess.ts"
import { makeTestingContext } from "./TestingContext.ts"
import { makeTingEndpoints } from "./TingEndpoints.ts"
import { makeTokenExchange } from "./TokenExchange.ts"
import { makeWebhookVerifier } from "./WebhookSignature.ts"

export const HttpIam: Layer.Layer<Iam, never, Settings | Store | HttpClient.HttpClient> = Layer.scoped(
  Iam,
  Effect.gen(function* () {
    const { iam: settings, rateLimit } = yield* Settings
    const call = makeIamCall(yield* HttpClient.HttpClient, settings)
    const { applicationId } = settings
    const refused = makeRefusedCredentials()
    const known = makeKnownCredentials(refused)
    const budget = makeIamBudget(
      { callsPerMinute: settings.callsPerMinute, countAddresses: rateLimit },
      known,
      refused
    )
    const { iamCalls, sessionDigests } = yield* Store
    yield* handOver(iamCalls, budget)
    const stored = yield* makeStoredSessions(sessionDigests, known)
    const testingContext = yield* makeTestingContext(call, applicationId, budget, known)

    const secretOf = (plane: Plane): Redacted.Redacted =>
      plane._tag === "Testing" ? plane.secret : settings.applicationSecret

    const callProduction = makeSecretWatch(applicationId)(call, {
      secret: settings.applicationSecret,
      testing: false
    })
    const planeCall: PlaneCall = (plane, request) =>
      plane._tag === "Production"
        ? callProduction(request)
        : Effect.tapErrorTag(call({ secret: plane.secret, testing: true }, request), "Refused", (refused) =>
            Effect.sync(() => {
              if (refusesSecret(refused)) testingContext.forget(plane.secret)
            })
          )

    const health = yield* makeIntrospectionHealth(planeCall, budget, known)
    const introspection = yield* makeIntrospection(health, budget, known, stored, settings)
    const revocation = makeRevocation(planeCall, budget, known, introspection, stored)
    const tokens = makeTokenExchange(planeCall, budget, known, health, revocation, stored, settings)
    const catalogue = yield* makeTingEndpoints(planeCall, budget)

    return {
      ...tokens,
      revoke: revocation.revoke,
      introspect: introspection.introspect,
      resolvePlane: testingContext.resolvePlane,
      prove: makeProofExchange(planeCall, budget, catalogue, secretOf),
      warmCatalogue: catalogue.warm,
      verifyWebhook: makeWebhookVerifier(settings.webhookSecrets)
    }
  })
)
