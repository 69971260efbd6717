/**
 * OBO proofs: IAM lets Ting act for a user, for one method, path and body (identity-service.md 10). The path comes from the catalogue of
 * Ting's endpoints at IAM.
 */
import { createHmac } from "node:crypto"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Redacted from "effect/Redacted"
import { sha256 } from "../../services/Digest.ts"
import type { IamService, TingEndpoint } from "../../services/Iam.ts"
import { type Plane, planeId } from "../../services/Plane.ts"
import { makeShare } from "../../services/combinators/Share.ts"
import type { SettingsValues } from "../../services/Settings.ts"
import { Refused, Unknown, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { audience, type Catalogue, readCatalogue, readProof } from "./Answers.ts"
import { type Credentials, tokenKey } from "./Credentials.ts"
import { type Ask, secretOf } from "./IamCall.ts"

const cataloguePath = `/obo-access/applications/${audience}/endpoints`
const catalogueMillis = 600_000
const maxCachedPlanes = 1_000
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

/** The catalogue is cached for 10 minutes by plane. */
export const makeProofs = (ask: Ask, credentials: Credentials, settings: SettingsValues["iam"]) =>
  Effect.gen(function* () {
    const catalogues = yield* makeShare<Catalogue, UpstreamFailure>({
      capacity: maxCachedPlanes,
      millis: catalogueMillis
    })
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
          json: {
            org_id: organisation,
            subject_token: Redacted.value(subject),
            audience,
            endpoint_id: endpoint,
            metadata: {},
            request: { method, body_sha256: bodyDigest }
          },
          credential,
          read: readProof(plane, path)
        }).pipe(
          credentials.recordingRefusal(credential, "access", ({ code }) => code === "invalid_subject_token")
        )
      })

    return { prove, warmCatalogue: (plane: Plane) => Effect.ignore(catalogueOf(plane)) }
  })
