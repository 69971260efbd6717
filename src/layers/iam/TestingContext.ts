/** Resolves the testing environment of an application secret (identity-service.md 9.1). */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { IamService } from "../../services/Iam.ts"
import { Testing } from "../../services/Plane.ts"
import { makeShare } from "../../services/Share.ts"
import { traced } from "../../services/Tracing.ts"
import { Refused, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { expect, expectStatus, type ResponseReader, readJson } from "../upstream/UpstreamResponse.ts"
import type { Budget, IamPath } from "./Budget.ts"
import { type Credentials, secretKey } from "./Credentials.ts"
import { type IamCall, refusesSecret } from "./IamCall.ts"
import { nilUuid, omittable, Uuid } from "./IamSchemas.ts"

const cacheMillis = 60_000
const maxCachedPlanes = 1_000

const Context = Schema.Struct({
  environment_id: Uuid,
  environment: omittable(Schema.Struct({ environment_id: Uuid })),
  application: Schema.Struct({ app_id: Schema.String }),
  webhook_key_digest: omittable(Schema.String.pipe(Schema.pattern(/^[0-9a-f]{64}$/)))
})

interface Environment {
  readonly environmentId: string
  readonly webhookKeyDigest: string | undefined
}

const readBody = readJson(Context)

const readContext =
  (applicationId: string): ResponseReader<Environment> =>
  (response) =>
    Either.gen(function* () {
      const context = yield* readBody(response)
      const { environment_id: environmentId } = context
      yield* expect(context.application.app_id === applicationId, "is for another application")
      yield* expect(environmentId !== nilUuid, "names no environment")
      yield* expect(
        Option.match(context.environment, {
          onNone: () => true,
          onSome: (environment) => environment.environment_id === environmentId
        }),
        "names two environments"
      )
      return { environmentId, webhookKeyDigest: Option.getOrUndefined(context.webhook_key_digest) }
    })

export interface TestingContextClient extends Pick<IamService, "resolvePlane"> {
  /** Drops the cached environment of a secret that IAM refused. */
  readonly forget: (secret: Redacted.Redacted) => void
}

const path: IamPath = "/application/testing-context"

/** Caches an environment for 60 s under the secret's digest. The secret itself is not kept. */
export const makeTestingContext = (
  call: IamCall,
  applicationId: string,
  budget: Budget,
  credentials: Credentials
): Effect.Effect<TestingContextClient, never, Scope.Scope> =>
  Effect.map(
    makeShare<Environment, UpstreamFailure>({ capacity: maxCachedPlanes, millis: cacheMillis }),
    (environments) => {
      const fetchEnvironment = (secret: Redacted.Redacted, credential: string) =>
        call(
          { secret, testing: true },
          {
            operation: "testing_context",
            method: "GET",
            path,
            read: expectStatus(200, readContext(applicationId))
          }
        ).pipe(
          Effect.tap(() => credentials.confirm(credential)),
          budget.within({ plane: undefined, path }, { credential }),
          Effect.tapErrorTag("Refused", (refused) =>
            refusesSecret(refused) ? credentials.recordRefusal(credential, "bad_testing_secret") : Effect.void
          )
        )

      return {
        resolvePlane: (secret) => {
          const credential = secretKey(secret)
          return environments.get(credential, fetchEnvironment(secret, credential)).pipe(
            credentials.unlessRefused(
              credential,
              Effect.failSync(() => new Refused({ dependency: "iam", status: 401, code: "unauthenticated" }))
            ),
            Effect.map((environment) => Testing({ ...environment, secret })),
            traced("Iam.resolvePlane")
          )
        },
        forget: (secret) => environments.forget(secretKey(secret))
      }
    }
  )
