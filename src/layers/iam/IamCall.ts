/** One call to IAM: base URL, headers, credentials and plane selector (identity-service.md 1, 9). */
import { randomUUID } from "node:crypto"
import * as HttpBody from "@effect/platform/HttpBody"
import type { HttpClient } from "@effect/platform/HttpClient"
import * as UrlParams from "@effect/platform/UrlParams"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { deadTokenCodes, type UpstreamKey } from "../../services/Iam.ts"
import type { Plane } from "../../services/Plane.ts"
import { RequestContext } from "../../services/RequestContext.ts"
import type { SettingsValues } from "../../services/Settings.ts"
import { Refused, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { envelopeFailure } from "../upstream/ErrorEnvelope.ts"
import { makeUpstream } from "../upstream/Upstream.ts"
import { expectStatus, type ResponseReader } from "../upstream/UpstreamResponse.ts"

export interface IamRequest<A> {
  /** `exchange` is of an SLT. */
  readonly operation: string
  /** Below `/api/v1`. */
  readonly path: string
  /** A call without one is a GET. */
  readonly body?: HttpBody.HttpBody
  readonly key?: UpstreamKey
  readonly headers?: Readonly<Record<string, string>>
  readonly read: ResponseReader<A>
  /** The key of the credential that it presents (`Credentials`); none for the application's own calls. */
  readonly credential?: string | undefined
  /** The key of the token whose introspection completes the exchange. */
  readonly completedBy?: (answer: A) => string
}

export const introspectPath = "/oauth/introspect"

/** Makes a call within the budget, or fails with 429 and the seconds after which it finds a place. */
export type Ask = <A>(plane: Plane, request: IamRequest<A>) => Effect.Effect<A, UpstreamFailure>

export const formOf = (fields: Readonly<Record<string, string>>): HttpBody.HttpBody =>
  HttpBody.urlParams(UrlParams.fromInput(fields))

/** The application's secret in a plane. Nothing falls back to production. */
export const secretOf = ({ applicationSecret }: SettingsValues["iam"], plane: Plane): Redacted.Redacted =>
  plane._tag === "Testing" ? plane.secret : applicationSecret

export const makeIamCall = (client: HttpClient, settings: SettingsValues["iam"]): Ask => {
  const upstream = makeUpstream(client, {
    dependency: "iam",
    url: settings.url,
    timeoutSeconds: 8,
    // identity-service.md 1.
    maxResponseBytes: 4 * 1024 * 1024,
    failureOf: envelopeFailure({
      requestIdHeader: "x-request-id",
      // identity-service.md 1: for so long IAM blocks a caller over its limit; the concurrency cap answers before anything is done.
      maxRetryAfterSeconds: 60,
      notExecutedCode: "server_overloaded"
    }),
    // identity-service.md 1.2: absent is accepted on ordinary calls.
    rejectHeaders: ({ "silicon-iam-api-version": version = "v1" }) =>
      version === "v1" ? undefined : "answered in another version of its contract"
  })
  return (plane, request) =>
    Effect.flatMap(RequestContext, ({ recording }) => {
      const { body, headers, key, operation, path, read } = request
      const secret = Redacted.value(secretOf(settings, plane))
      const authorization = `Basic ${Buffer.from(`${settings.applicationId}:${secret}`).toString("base64")}`
      return upstream({
        operation,
        method: body === undefined ? "GET" : "POST",
        path: `/api/v1${path}`,
        headers: {
          authorization,
          ...(plane._tag === "Testing" ? { "x-testing-application": authorization } : {}),
          "silicon-iam-supported-api-versions": "v1",
          "x-request-id": randomUUID(),
          "x-iam-telemetry": recording ? "on" : "off",
          ...(key === undefined ? {} : { "idempotency-key": key }),
          ...headers
        },
        body,
        // identity-service.md 10.3: a proof comes with any 2xx.
        read: operation === "prove" ? read : expectStatus(200, read)
      })
    })
}

/** IAM refused the application's credentials in the plane of the call (identity-service.md 3, 9), not the token that it presented. */
export const refusesSecret = ({ code, status }: Refused): boolean =>
  status !== 429 && (code === "invalid_client" || code === "unauthenticated")

/** A refusal by IAM that is repeated without a call. */
export const refusedAs = (status: number, code: string) =>
  Effect.failSync(() => new Refused({ dependency: "iam", status, code }))

/** IAM refused the token that was to be exchanged. */
export const refusesToken = ({ code, status }: Refused): boolean =>
  status !== 429 && deadTokenCodes.some((dead) => dead === code)
