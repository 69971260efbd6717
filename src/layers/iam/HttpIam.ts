/** The `Iam` port over IAM's HTTP API. */
import * as HttpClient from "@effect/platform/HttpClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { makeShare } from "../../services/combinators/Share.ts"
import { randomHex } from "../../services/Digest.ts"
import { Iam, type IamService, type WebhookEvent } from "../../services/Iam.ts"
import { unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import { type Plane, planeId, productionId, Testing, type TestingPlane } from "../../services/Plane.ts"
import { Settings } from "../../services/Settings.ts"
import { type IamCalls, Store } from "../../services/Store.ts"
import { Refused, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { readTestingContext } from "./Answers.ts"
import { type Budget, makeBudget } from "./Budget.ts"
import { makeBounded, makeCredentials, secretKey } from "./Credentials.ts"
import { type Ask, makeIamCall, refusesSecret } from "./IamCall.ts"
import { makeProofs } from "./Proofs.ts"
import { makeTokens } from "./Tokens.ts"
import { makeWebhookVerifier } from "./Webhooks.ts"

/** Of environments of testing secrets. */
const environmentMillis = 60_000
const maxEnvironments = 1_000

/** A database that is slow delays neither the start nor the stop by more milliseconds. */
const longestHandOver = 500

/**
 * Takes the places of the last minute that stopped processes left, and leaves the own ones when the scope closes: IAM counts the
 * application, not its processes. What is beyond the budget stays for the next process, because several may have stopped together.
 */
const handOver = ({ leave, take }: IamCalls, { occupy, taken }: Budget) =>
  Effect.clockWith((clock) => {
    const briefly = makeBounded(1, longestHandOver)
    const times = () => [unsafeMonotonicMillis(clock), clock.unsafeCurrentTimeMillis()] as const
    const leaveAll = (places: Parameters<typeof leave>[1]) =>
      places.length === 0 ? Effect.void : briefly(leave(randomHex(16), places))
    return briefly(take()).pipe(
      Effect.flatMap((left) =>
        leaveAll(
          occupy(
            Option.getOrElse(left, () => []),
            ...times()
          )
        )
      ),
      Effect.zipRight(Effect.addFinalizer(() => Effect.suspend(() => leaveAll(taken(...times())))))
    )
  })

/** Whether the key of a token (`tokenKey`) may be of the plane of a webhook, which may name no environment. */
const isOfPlane = (key: string, plane: WebhookEvent["plane"]): boolean => {
  const id = plane._tag === "Production" ? productionId : Option.getOrUndefined(plane.environmentId)
  return id === undefined ? !key.startsWith(`${productionId} `) : key.startsWith(`${id} `)
}

export const HttpIam: Layer.Layer<Iam, never, Settings | Store | HttpClient.HttpClient> = Layer.scoped(
  Iam,
  Effect.gen(function* () {
    const { iam: settings, rateLimit } = yield* Settings
    const { iamCalls, sessionDigests } = yield* Store
    const { applicationId, applicationSecret, callsPerMinute, webhookSecrets } = settings
    const call = makeIamCall(yield* HttpClient.HttpClient, settings)
    const credentials = makeCredentials(sessionDigests, applicationSecret)
    const budget = makeBudget({ callsPerMinute, countAddresses: rateLimit }, credentials)
    yield* handOver(iamCalls, budget)
    const environments = yield* makeShare<Omit<TestingPlane, "_tag" | "secret">, UpstreamFailure>({
      capacity: maxEnvironments,
      millis: environmentMillis
    })
    /** IAM refuses the application's own secret, and an operator was told. */
    let isRefused = false

    const noteRefusal = (plane: Plane, operation: string, refused: Refused): Effect.Effect<void> => {
      if (!refusesSecret(refused)) return Effect.void
      if (plane._tag === "Testing") return Effect.sync(() => environments.forget(secretKey(plane.secret)))
      // IAM refuses a stale signature, or one for another path, with the same code. The introspection before it shows a refused secret.
      if (isRefused || operation === "prove") return Effect.void
      isRefused = true
      return Effect.logError("IAM refuses the application's secret: no session can begin or be checked", {
        failure: `${refused.status} ${refused.code}`,
        advice: `set MUSIC_IAM_APP_SECRET to the current secret of the application ${applicationId} at IAM and restart, or enable the application there`,
        upstreamRequestId: refused.requestId
      })
    }

    const ask: Ask = (plane, request) => {
      const { credential, operation } = request
      const sent = call(plane, request).pipe(
        Effect.tap(() => {
          if (plane._tag === "Production") isRefused = false
          return Effect.void
        }),
        Effect.tapErrorTag("Refused", (refused) => noteRefusal(plane, operation, refused)),
        budget.within(planeId(plane), request)
      )
      // No short-lived token is stored.
      return credential === undefined || operation === "exchange"
        ? sent
        : credentials.recalling(credential, sent)
    }

    /** Cached for 60 s under the secret's digest. The secret itself is not kept. */
    const resolvePlane: IamService["resolvePlane"] = (secret) => {
      const credential = secretKey(secret)
      const refused = Effect.failSync(
        () => new Refused({ dependency: "iam", status: 401, code: "unauthenticated" })
      )
      const asked = ask(Testing({ environmentId: "", secret, webhookKeyDigest: undefined }), {
        operation: "testing_context",
        path: "/application/testing-context",
        credential,
        read: readTestingContext(applicationId)
      }).pipe(
        Effect.tap(() => Effect.sync(() => credentials.confirm(credential))),
        credentials.recordingRefusal(credential, "secret", refusesSecret)
      )
      return environments.get(credential, asked).pipe(
        credentials.unlessRefused(credential, refused),
        Effect.map((environment) => Testing({ ...environment, secret }))
      )
    }

    const { forgetWhere, ...tokens } = yield* makeTokens(ask, credentials, settings)
    const verifyWebhook = makeWebhookVerifier(webhookSecrets)
    return {
      ...tokens,
      ...(yield* makeProofs(ask, credentials, settings)),
      resolvePlane,
      verifyWebhook: (delivery) =>
        Effect.tap(verifyWebhook(delivery), ({ plane }) => forgetWhere((key) => isOfPlane(key, plane)))
    }
  })
)
