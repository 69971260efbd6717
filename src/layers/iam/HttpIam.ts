/**
 * The `Iam` port over IAM's HTTP API. Its OBO proofs let Ting act for a user, for one method, path and body (identity-service.md 10). The
 * path comes from the catalogue of Ting's endpoints at IAM.
 */
import { createHmac } from "node:crypto"
import * as HttpBody from "@effect/platform/HttpBody"
import * as HttpClient from "@effect/platform/HttpClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { makeShare } from "../../services/combinators/Share.ts"
import { digestOf, randomHex, sha256 } from "../../services/Digest.ts"
import { Iam, type IamService, type TingEndpoint } from "../../services/Iam.ts"
import { unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import { type Plane, planeId, productionId, Testing, type TestingPlane } from "../../services/Plane.ts"
import { Settings } from "../../services/Settings.ts"
import { type IamCalls, Store } from "../../services/Store.ts"
import { Refused, Unknown, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { audience, type Catalogue, readCatalogue, readProof, readTestingContext } from "./Answers.ts"
import { type Budget, makeBudget } from "./Budget.ts"
import { makeBounded, makeCredentials, tokenKey } from "./Credentials.ts"
import { type Ask, makeIamCall, refusedAs, refusesSecret, secretOf } from "./IamCall.ts"
import { makeTokens } from "./Tokens.ts"
import { makeWebhookVerifier } from "./Webhooks.ts"

type Environment = Omit<TestingPlane, "_tag" | "secret">

/** Of the environments of testing secrets, and of catalogues. */
const capacity = 1_000
const environmentMillis = 60_000

/** A database that is slow delays neither the start nor the stop by more milliseconds. */
const longestHandOver = 500

/**
 * Takes the places of the last minute that stopped processes left, and leaves the own ones when the scope closes: IAM counts the
 * application, not its processes. What is beyond the budget stays for the next process, because several may have stopped together.
 */
const handOver = ({ leave, take }: IamCalls, { occupy, taken }: Budget) =>
  Effect.gen(function* () {
    const clock = yield* Effect.clock
    const briefly = makeBounded(1, longestHandOver)
    const times = () => [unsafeMonotonicMillis(clock), clock.unsafeCurrentTimeMillis()] as const
    const leaveAll = (places: Parameters<typeof leave>[1]) =>
      places.length === 0 ? Effect.void : briefly(leave(randomHex(16), places))
    const left = Option.getOrElse(yield* briefly(take()), () => [])
    yield* leaveAll(occupy(left, ...times()))
    yield* Effect.addFinalizer(() => Effect.suspend(() => leaveAll(taken(...times()))))
  })

const cataloguePath = `/obo-access/applications/${audience}/endpoints`
const catalogueMillis = 600_000
const maxPathLength = 2_048
const method = "POST"

/**
 * Absolute, at most 2048 characters, no leading `//`, no query, no fragment, no whitespace, no dot segments. A path that a
 * URL parser would rewrite is invalid too, because the sent path would differ from the signed one.
 */
const isEndpointPath = (path: string): boolean =>
  path.length <= maxPathLength &&
  /^\/(?!\/)[^?#\s\\]*$/.test(path) &&
  URL.canParse(path, "http://host") &&
  new URL(path, "http://host").pathname === path

const pathIn = ({ endpoints }: Catalogue, id: TingEndpoint): Either.Either<string, UpstreamFailure> => {
  const [endpoint, second] = endpoints.filter(({ endpoint_id }) => endpoint_id === id)
  if (endpoint === undefined)
    return Either.left(new Refused({ dependency: "iam", status: 404, code: "not_found" }))
  return second === undefined && isEndpointPath(endpoint.path) && Object.keys(endpoint.metadata).length === 0
    ? Either.right(endpoint.path)
    : Either.left(new Unknown({ dependency: "iam", reason: `lists ${id} in another shape` }))
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
    const environments = yield* makeShare<Environment, UpstreamFailure>(environmentMillis, capacity)
    /** Kept for 10 minutes by plane. */
    const catalogues = yield* makeShare<Catalogue, UpstreamFailure>(catalogueMillis, capacity)
    /** IAM refuses the application's own secret, and the log has it. */
    let isRefused = false

    const noteRefusal = (plane: Plane, operation: string, refused: Refused): Effect.Effect<void> => {
      if (!refusesSecret(refused)) return Effect.void
      // Its path may have moved since the catalogue was fetched.
      if (operation === "prove") catalogues.forget(planeId(plane))
      if (plane._tag === "Testing") return Effect.sync(() => environments.forget(digestOf(plane.secret)))
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
        Effect.map((answer) => {
          if (plane._tag === "Production") isRefused = false
          return answer
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
      const unresolved = Testing({ environmentId: "", secret, webhookKeyDigest: undefined })
      const credential = tokenKey(unresolved, secret)
      const asked = ask(unresolved, {
        operation: "testing_context",
        path: "/application/testing-context",
        credential,
        read: readTestingContext(applicationId)
      }).pipe(
        Effect.tap(() => Effect.sync(() => credentials.confirm(unresolved, credential))),
        credentials.recordingRefusal(credential, "secret", refusesSecret)
      )
      return environments.get(digestOf(secret), asked).pipe(
        credentials.unlessRefused(credential, refusedAs(401, "unauthenticated")),
        Effect.map((environment) => Testing({ ...environment, secret }))
      )
    }

    const catalogueOf = (plane: Plane) =>
      catalogues.get(
        planeId(plane),
        ask(plane, { operation: "catalogue", path: cataloguePath, read: readCatalogue })
      )

    const prove: IamService["prove"] = (plane, { body, endpoint, key, organisation, subject }) =>
      Effect.gen(function* () {
        // A catalogue without the endpoint is fetched anew, so that a correction takes effect with the next proof.
        const path = yield* Effect.tapError(pathIn(yield* catalogueOf(plane), endpoint), () =>
          Effect.sync(() => catalogues.forget(planeId(plane)))
        )
        const credential = tokenKey(plane, subject)
        const timestamp = Math.floor((yield* Clock.currentTimeMillis) / 1_000)
        const bodyDigest = sha256(body)
        // `hex(HMAC_SHA256(application secret, T.M.P.H.K))`.
        const signature = createHmac("sha256", Redacted.value(secretOf(settings, plane)))
          .update(`${timestamp}.${method}.${path}.${bodyDigest}.${key}`)
          .digest("hex")
        return yield* ask(plane, {
          operation: "prove",
          path: "/obo-access/exchanges",
          key,
          headers: { "x-obo-timestamp": String(timestamp), "x-obo-signature": signature },
          body: HttpBody.unsafeJson({
            org_id: organisation,
            subject_token: Redacted.value(subject),
            audience,
            endpoint_id: endpoint,
            metadata: {},
            request: { method, body_sha256: bodyDigest }
          }),
          credential,
          read: readProof(plane, path)
        }).pipe(
          credentials.recordingRefusal(credential, "access", ({ code }) => code === "invalid_subject_token")
        )
      })

    const { forgetWhere, ...tokens } = yield* makeTokens(ask, credentials, settings)
    const verifyWebhook = makeWebhookVerifier(webhookSecrets)
    return {
      ...tokens,
      prove,
      resolvePlane,
      // A webhook of a testing plane may not name it, so it is for the tokens of all testing planes.
      verifyWebhook: (delivery) =>
        Effect.tap(verifyWebhook(delivery), ({ testing }) =>
          forgetWhere((key) => key.startsWith(`${productionId} `) === Option.isNone(testing))
        )
    }
  })
)
