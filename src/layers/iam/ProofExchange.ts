/** The exchange of OBO proofs: IAM lets Ting act for a user, for one method, path and body (identity-service.md 10). */
import { createHmac } from "node:crypto"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { testingSecretPattern } from "../../schema/Patterns.ts"
import { sha256 } from "../../services/Digest.ts"
import type { IamService, Proof, UpstreamKey } from "../../services/Iam.ts"
import { isPlane, type Plane, planeId } from "../../services/Plane.ts"
import { traced } from "../../services/Tracing.ts"
import type { UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { expect, type ResponseReader, readJson } from "../upstream/UpstreamResponse.ts"
import type { Budget } from "./Budget.ts"
import { tokenKey } from "./Credentials.ts"
import { exchangesPath, type PlaneCall } from "./IamCall.ts"
import { omittable } from "./IamSchemas.ts"
import { audience, type TingEndpoints } from "./TingEndpoints.ts"

const method = "POST"
/** Seconds; the maximum of Ting's endpoints. */
const maxProofSeconds = 60

/** `hex(HMAC_SHA256(application secret, T.M.P.H.K))`; `timestamp` in seconds, `path` from the catalogue. */
const signature = (
  secret: Redacted.Redacted,
  parts: {
    readonly timestamp: number
    readonly path: string
    readonly bodyDigest: string
    readonly key: string
  }
): string =>
  createHmac("sha256", Redacted.value(secret))
    .update(`${parts.timestamp}.${method}.${parts.path}.${parts.bodyDigest}.${parts.key}`)
    .digest("hex")

const Exchanged = Schema.Struct({
  access_proof: Schema.Redacted(Schema.String.pipe(Schema.pattern(/^obo_[A-Za-z0-9_-]{28,8188}$/))),
  proof_id: Schema.String,
  expires_in: Schema.Int.pipe(Schema.between(1, maxProofSeconds)),
  expires_at: Schema.String,
  testing_context: omittable(
    Schema.Struct({
      app_id: Schema.String,
      app_secret: Schema.Redacted(Schema.String.pipe(Schema.pattern(testingSecretPattern))),
      iam_test_key: Schema.Redacted(Schema.String.pipe(Schema.pattern(/^[A-Za-z0-9]{32}$/)))
    })
  )
})

const readBody = readJson(Exchanged)

const readProof =
  (plane: Plane, path: string): ResponseReader<Proof> =>
  (response) =>
    Either.gen(function* () {
      const { access_proof, testing_context: context } = yield* readBody(response)
      const testing = isPlane("Testing")(plane)
      yield* expect(testing || Option.isNone(context), "holds a testing context in production")
      yield* expect(
        !testing || Option.isSome(context),
        "holds no testing context: Ting is not imported into the testing environment"
      )
      yield* expect(
        Option.match(context, { onNone: () => true, onSome: ({ app_id }) => app_id === audience }),
        "holds the testing context of another application"
      )
      return {
        bearer: access_proof,
        path,
        testing: Option.map(context, ({ app_secret, iam_test_key }) => ({
          applicationSecret: app_secret,
          environmentKey: iam_test_key
        }))
      }
    })

// The digest of a key is a valid key. This cast and `Idempotency.upstreamKey` are the only places that make one.
const keyFor = (key: UpstreamKey, path: string): UpstreamKey => sha256(`${key}:${path}`) as UpstreamKey

/** IAM refuses a signature over a moved path as `invalid_client`, and a removed endpoint with 404. */
const mayHaveMoved = (failure: UpstreamFailure): boolean =>
  failure._tag === "Refused" && (failure.code === "invalid_client" || failure.status === 404)

export const makeProofExchange =
  (
    call: PlaneCall,
    budget: Budget,
    catalogue: TingEndpoints,
    secretOf: (plane: Plane) => Redacted.Redacted
  ): IamService["prove"] =>
  (plane, { body, endpoint, key, organisation, subject }) => {
    const bodyDigest = sha256(body)
    const exchange = (path: string, key: UpstreamKey) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const timestamp = Math.floor(now / 1_000)
        return call(plane, {
          operation: "prove",
          method,
          path: exchangesPath,
          key,
          headers: {
            "x-obo-timestamp": String(timestamp),
            "x-obo-signature": signature(secretOf(plane), { timestamp, path, bodyDigest, key })
          },
          json: {
            org_id: organisation,
            subject_token: Redacted.value(subject),
            audience,
            endpoint_id: endpoint,
            metadata: {},
            request: { method, body_sha256: bodyDigest }
          },
          read: readProof(plane, path)
        }).pipe(
          budget.within(
            { plane: planeId(plane), path: exchangesPath },
            { credential: tokenKey(plane, subject) }
          )
        )
      })

    const exchangeAtMovedPath = (path: string, refused: UpstreamFailure) => {
      catalogue.forget(plane)
      return catalogue.pathOf(plane, endpoint).pipe(
        Effect.mapError((failure) =>
          // Without Ting or the endpoint the refusal holds. Another failure of the catalogue is no missing scope.
          failure._tag === "Refused" && failure.status === 404 ? refused : failure
        ),
        Effect.flatMap((moved) =>
          moved === path ? Effect.fail(refused) : exchange(moved, keyFor(key, moved))
        )
      )
    }

    return Effect.flatMap(catalogue.pathOf(plane, endpoint), (path) =>
      Effect.catchIf(exchange(path, key), mayHaveMoved, (refused) => exchangeAtMovedPath(path, refused))
    ).pipe(traced("Iam.prove"))
  }
