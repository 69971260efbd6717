/** The `Iam` port over IAM's HTTP API. */
import * as HttpClient from "@effect/platform/HttpClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { randomHex } from "../../services/Digest.ts"
import { Iam, type IamService, type WebhookEvent } from "../../services/Iam.ts"
import { monotonicMillis } from "../../services/MonotonicTime.ts"
import { type Plane, planeId, productionId, Testing, type TestingPlane } from "../../services/Plane.ts"
import { Settings } from "../../services/Settings.ts"
import { makeShare } from "../../services/combinators/Share.ts"
import { type IamCalls, Store, type Stored } from "../../services/Store.ts"
import { Refused, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { expectStatus } from "../upstream/UpstreamResponse.ts"
import { readTestingContext } from "./Answers.ts"
import { type Budget, makeBudget, type TakenPlace } from "./Budget.ts"
import { makeCredentials, secretKey } from "./Credentials.ts"
import {
  type Ask,
  exchangesPath,
  type IamRequest,
  makeIamCall,
  makeSecretWatch,
  refusesSecret,
  secretOf
} from "./IamCall.ts"
import { makeProofs } from "./Proofs.ts"
import { makeTokens } from "./Tokens.ts"
import { makeWebhookVerifier } from "./Webhooks.ts"

/** Milliseconds: no place of another process is taken for longer, whatever the wall clocks say. */
const longestPlace = 60_000
/** Of environments of testing secrets. */
const environmentMillis = 60_000
const maxEnvironments = 1_000

/** A database that is slow delays neither the start nor the stop by more. */
const briefly = <A>(access: Stored<A>) =>
  Effect.option(Effect.timeout(Effect.disconnect(Effect.interruptible(access)), "500 millis"))

/**
 * Takes the places of the last minute that stopped processes left, and leaves the own ones when the scope closes: IAM counts the
 * application, not its processes. What is beyond the budget stays for the next process, because several may have stopped together.
 */
const handOver = (calls: IamCalls, budget: Budget) =>
  Effect.gen(function* () {
    const leave = (places: ReadonlyArray<TakenPlace>) =>
      Effect.gen(function* () {
        const at = yield* Clock.currentTimeMillis
        const taken = places
          // The window of a testing secret has its digest in its name.
          .filter(([window]) => !window.startsWith("secret "))
          .map(([window, millis]) => ({ window, freeAt: at + Math.ceil(millis) }))
        if (taken.length > 0) yield* briefly(calls.leave(randomHex(16), taken))
      })
    const left = Option.getOrElse(yield* briefly(calls.take()), () => [])
    const now = yield* Clock.currentTimeMillis
    const places = left.map(({ freeAt, window }) => [window, Math.min(freeAt - now, longestPlace)] as const)
    const others = budget.occupy(
      places.filter(([, millis]) => millis > 0),
      yield* monotonicMillis
    )
    yield* leave(others)
    yield* Effect.addFinalizer(() => Effect.flatMap(monotonicMillis, (at) => leave(budget.taken(at))))
  })

/** Whether the key of a token (`tokenKey`) may be of the plane of a webhook, which may name no environment. */
const isOfPlane = (key: string, plane: WebhookEvent["plane"]): boolean => {
  const isProduction = key.startsWith(`${productionId} `)
  if (plane._tag === "Production" || Option.isNone(plane.environmentId))
    return isProduction === (plane._tag === "Production")
  return key.startsWith(`${plane.environmentId.value} `)
}

export const HttpIam: Layer.Layer<Iam, never, Settings | Store | HttpClient.HttpClient> = Layer.scoped(
  Iam,
  Effect.gen(function* () {
    const { iam: settings, rateLimit } = yield* Settings
    const { iamCalls, sessionDigests } = yield* Store
    const { applicationId, applicationSecret, callsPerMinute } = settings
    const call = makeIamCall(yield* HttpClient.HttpClient, settings)
    const credentials = makeCredentials(sessionDigests, applicationSecret)
    const budget = makeBudget({ callsPerMinute, countAddresses: rateLimit }, credentials)
    yield* handOver(iamCalls, budget)
    const environments = yield* makeShare<Omit<TestingPlane, "_tag" | "secret">, UpstreamFailure>({
      capacity: maxEnvironments,
      millis: environmentMillis
    })

    const watch = makeSecretWatch(applicationId)
    const send = <A>(plane: Plane, request: IamRequest<A>) => {
      const sent = call(plane, request)
      // IAM refuses a stale signature, or one for another path, with the same code. The introspection before it shows a refused secret.
      if (plane._tag === "Production") return request.path === exchangesPath ? sent : watch(sent)
      return Effect.tapErrorTag(sent, "Refused", (refused) =>
        Effect.sync(() => {
          if (refusesSecret(refused)) environments.forget(secretKey(plane.secret))
        })
      )
    }
    const ask: Ask = (plane, request, counting, completedKey) =>
      budget.within(
        { plane: planeId(plane), ...counting, path: request.path },
        completedKey
      )(send(plane, request))

    /** Cached for 60 s under the secret's digest. The secret itself is not kept. */
    const resolvePlane: IamService["resolvePlane"] = (secret) => {
      const credential = secretKey(secret)
      const refused = Effect.failSync(
        () => new Refused({ dependency: "iam", status: 401, code: "unauthenticated" })
      )
      const unresolved = Testing({ environmentId: "", secret, webhookKeyDigest: undefined })
      const read = expectStatus(200, readTestingContext(applicationId))
      const request = { operation: "testing_context", path: "/application/testing-context", read }
      const asked = ask(unresolved, request, { plane: undefined, credential }).pipe(
        Effect.tap(() => credentials.confirm(credential)),
        Effect.tapErrorTag("Refused", (refusal) =>
          Effect.when(credentials.recordRefusal(credential, "secret"), () => refusesSecret(refusal))
        )
      )
      return environments.get(credential, asked).pipe(
        credentials.unlessRefused(credential, refused),
        Effect.map((environment) => Testing({ ...environment, secret }))
      )
    }

    const { forgetWhere, recordInactive, ...tokens } = yield* makeTokens(ask, credentials, settings)
    const verifyWebhook = makeWebhookVerifier(settings.webhookSecrets)
    return {
      ...tokens,
      ...(yield* makeProofs(ask, (plane) => secretOf(settings, plane), recordInactive)),
      resolvePlane,
      verifyWebhook: (delivery) =>
        Effect.tap(verifyWebhook(delivery), ({ plane }) => forgetWhere((key) => isOfPlane(key, plane)))
    }
  })
)
