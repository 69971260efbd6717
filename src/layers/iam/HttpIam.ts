/** The `Iam` port over IAM's HTTP API. */
import * as HttpClient from "@effect/platform/HttpClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { randomHex } from "../../services/Digest.ts"
import { Iam, type WebhookEvent } from "../../services/Iam.ts"
import { monotonicMillis } from "../../services/MonotonicTime.ts"
import { type Plane, productionId } from "../../services/Plane.ts"
import { Settings } from "../../services/Settings.ts"
import { type IamCalls, Store, type Stored } from "../../services/Store.ts"
import { type Budget, makeBudget } from "./Budget.ts"
import { makeCredentials } from "./Credentials.ts"
import { exchangesPath, makeIamCall, makeSecretWatch, type PlaneCall, refusesSecret } from "./IamCall.ts"
import { makeIntrospection } from "./Introspection.ts"
import { makeIntrospectionHealth } from "./IntrospectionHealth.ts"
import { makeProofExchange } from "./ProofExchange.ts"
import { makeTestingContext } from "./TestingContext.ts"
import { makeTingEndpoints } from "./TingEndpoints.ts"
import { makeTokens } from "./Tokens.ts"
import { makeWebhookVerifier } from "./WebhookSignature.ts"

/** A database that is slow delays neither the start nor the stop by more. */
const longestStoreWait = "500 millis"
/** Milliseconds: no place is taken for longer, whatever the wall clocks of two processes say. */
const longestPlace = 60_000

const briefly = <A>(access: Stored<A>) =>
  Effect.option(Effect.timeout(Effect.disconnect(Effect.interruptible(access)), longestStoreWait))

/**
 * Takes the places of the last minute that stopped processes left, and leaves the own ones when the scope closes: IAM counts the
 * application, not its processes.
 */
const handOver = (calls: IamCalls, budget: Budget): Effect.Effect<void, never, Scope.Scope> =>
  Effect.gen(function* () {
    const left = yield* briefly(calls.take())
    const now = yield* Clock.currentTimeMillis
    if (left._tag === "Some")
      budget.occupy(
        left.value.flatMap(({ freeAt, window }) =>
          freeAt > now ? [{ window, millis: Math.min(freeAt - now, longestPlace) }] : []
        ),
        yield* monotonicMillis
      )
    yield* Effect.addFinalizer(() =>
      Effect.gen(function* () {
        const at = yield* Clock.currentTimeMillis
        const taken = budget
          .taken(yield* monotonicMillis)
          // The window of a testing secret has its digest in its name.
          .filter(({ window }) => !window.startsWith("secret "))
          .map(({ millis, window }) => ({ window, freeAt: at + Math.ceil(millis) }))
        if (taken.length > 0) yield* briefly(calls.leave(randomHex(16), taken))
      })
    )
  })

/** Whether the key of a token (`tokenKey`) may be of the plane of a webhook. */
const isOfPlane = (key: string, plane: WebhookEvent["plane"]): boolean => {
  const production = key.startsWith(`${productionId} `)
  if (plane._tag === "Production") return production
  return Option.match(plane.environmentId, {
    onNone: () => !production,
    onSome: (id) => key.startsWith(`${id} `)
  })
}

export const HttpIam: Layer.Layer<Iam, never, Settings | Store | HttpClient.HttpClient> = Layer.scoped(
  Iam,
  Effect.gen(function* () {
    const { iam: settings, rateLimit } = yield* Settings
    const { iamCalls, sessionDigests } = yield* Store
    const call = makeIamCall(yield* HttpClient.HttpClient, settings)
    const { applicationId, applicationSecret, callsPerMinute } = settings
    const credentials = yield* makeCredentials(sessionDigests, applicationSecret)
    const budget = makeBudget({ callsPerMinute, countAddresses: rateLimit }, credentials)
    yield* handOver(iamCalls, budget)
    const testingContext = yield* makeTestingContext(call, applicationId, budget, credentials)

    const secretOf = (plane: Plane): Redacted.Redacted =>
      plane._tag === "Testing" ? plane.secret : applicationSecret

    const watch = makeSecretWatch(applicationId)
    const planeCall: PlaneCall = (plane, request) => {
      const sent = call({ secret: secretOf(plane), testing: plane._tag === "Testing" }, request)
      // IAM refuses a stale signature, or one for a moved path, with the same code. The list of endpoints, which is then fetched, shows a
      // refused secret.
      if (plane._tag === "Production") return request.path === exchangesPath ? sent : watch(sent)
      return Effect.tapErrorTag(sent, "Refused", (refused) =>
        Effect.sync(() => {
          if (refusesSecret(refused)) testingContext.forget(plane.secret)
        })
      )
    }

    const health = yield* makeIntrospectionHealth(planeCall, budget)
    const introspection = yield* makeIntrospection(health, credentials, settings)
    const catalogue = yield* makeTingEndpoints(planeCall, budget)
    const verifyWebhook = makeWebhookVerifier(settings.webhookSecrets)

    return {
      ...makeTokens(planeCall, budget, credentials, health, introspection, applicationId),
      introspect: introspection.introspect,
      resolvePlane: testingContext.resolvePlane,
      prove: makeProofExchange(planeCall, budget, catalogue, secretOf),
      warmCatalogue: catalogue.warm,
      verifyWebhook: (delivery) =>
        Effect.tap(verifyWebhook(delivery), ({ plane }) => {
          introspection.forgetWhere((key) => isOfPlane(key, plane))
        })
    }
  })
)
