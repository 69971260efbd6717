/** Which testing environment a secret belongs to (identity-service.md 9.1). */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { digestOf } from "../../services/Digest.ts"
import type { IamService } from "../../services/Iam.ts"
import { Testing } from "../../services/Plane.ts"
import type { UpstreamFailure } from "../../services/Upstream.ts"
import { expect, type Read, readJson } from "../upstream/Answer.ts"
import type { Acquaintances } from "./Acquaintances.ts"
import type { IamCall } from "./IamCall.ts"
import { makeRemembered } from "./Remembered.ts"
import { nilUuid, omittable, only, Uuid } from "./Shapes.ts"
import { isVerdict, tried } from "./Tried.ts"

const rememberedMillis = 60_000
const rememberedPlanes = 1_000

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

const readContext =
  (applicationId: string): Read<Environment> =>
  (answer) =>
    Either.gen(function* () {
      const context = yield* readJson(Context)(answer)
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
  /** For a secret that IAM has just refused. */
  readonly forget: (secret: Redacted.Redacted) => Effect.Effect<void>
}

/** What IAM told is remembered for 60 s under the secret's digest; the secret itself is not kept. */
export const makeTestingContext = (
  call: IamCall,
  applicationId: string,
  acquaintances: Acquaintances
): Effect.Effect<TestingContextClient, never, Scope.Scope> =>
  Effect.map(
    makeRemembered<Environment, UpstreamFailure>({ capacity: rememberedPlanes, millis: rememberedMillis }),
    (environments) => ({
      resolvePlane: Effect.fn("Iam.resolvePlane")((secret) => {
        const digest = digestOf(secret)
        const key = `secret ${digest}`
        const look = Effect.suspend(() =>
          call(
            { secret, testing: true },
            {
              operation: "testing_context",
              method: "GET",
              path: "/application/testing-context",
              read: only(200, readContext(applicationId))
            }
          ).pipe(
            tried({ vouched: acquaintances.isVouched(key), testing: true }),
            Effect.tap(() => acquaintances.vouch(key)),
            Effect.tapErrorTag("Refused", (refused) =>
              Effect.sync(() => {
                if (isVerdict(refused, true)) acquaintances.refused(key)
              })
            )
          )
        )
        return Effect.map(environments.get(digest, look), (environment) =>
          Testing({ ...environment, secret })
        )
      }),
      forget: (secret) => environments.forget(digestOf(secret))
    })
  )
