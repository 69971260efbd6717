/** One call to IAM: base URL, headers, credentials and plane selector (identity-service.md 1, 9). */
import { randomUUID } from "node:crypto"
import * as HttpBody from "@effect/platform/HttpBody"
import type { HttpClient } from "@effect/platform/HttpClient"
import * as UrlParams from "@effect/platform/UrlParams"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { UpstreamKey } from "../../services/Iam.ts"
import type { Plane } from "../../services/Plane.ts"
import { RequestContext } from "../../services/RequestContext.ts"
import type { SettingsValues } from "../../services/Settings.ts"
import type { Refused, UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { envelopeFailure } from "../upstream/ErrorEnvelope.ts"
import { jsonBody, makeUpstream } from "../upstream/Upstream.ts"
import type { ResponseReader } from "../upstream/UpstreamResponse.ts"

/** The application's secret in one plane. `testing` adds the plane selector; nothing falls back to production. */
export interface ApplicationCredentials {
  readonly secret: Redacted.Redacted
  readonly testing: boolean
}

export interface IamRequest<A> {
  readonly operation: string
  readonly method: "GET" | "POST"
  /** Below `/api/v1`. */
  readonly path: string
  readonly form?: Readonly<Record<string, string>>
  readonly json?: unknown
  readonly key?: UpstreamKey
  readonly headers?: Readonly<Record<string, string>>
  readonly read: ResponseReader<A>
}

export type IamCall = <A>(
  credentials: ApplicationCredentials,
  request: IamRequest<A>
) => Effect.Effect<A, UpstreamFailure>

/** A call with the credentials of a plane. */
export type PlaneCall = <A>(plane: Plane, request: IamRequest<A>) => Effect.Effect<A, UpstreamFailure>

/** Where proofs are exchanged, below `/api/v1`. */
export const exchangesPath = "/obo-access/exchanges"

const versionHeader = "silicon-iam-api-version"

const bodyOf = ({ form, json }: IamRequest<unknown>): HttpBody.HttpBody => {
  if (form !== undefined) return HttpBody.urlParams(UrlParams.fromInput(form))
  return json === undefined ? HttpBody.empty : jsonBody(JSON.stringify(json))
}

/** `Basic base64(app_id ":" app_secret)`. */
const basic = (applicationId: string, secret: Redacted.Redacted): string =>
  `Basic ${Buffer.from(`${applicationId}:${Redacted.value(secret)}`).toString("base64")}`

export const makeIamCall = (client: HttpClient, settings: SettingsValues["iam"]): IamCall => {
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
    rejectHeaders: (headers) =>
      (headers[versionHeader] ?? "v1") === "v1" ? undefined : "answered in another version of its contract"
  })
  return (credentials, request) =>
    Effect.flatMap(RequestContext, ({ recording }) => {
      const authorization = basic(settings.applicationId, credentials.secret)
      return upstream({
        operation: request.operation,
        method: request.method,
        path: `/api/v1${request.path}`,
        headers: {
          authorization,
          ...(credentials.testing ? { "x-testing-application": authorization } : {}),
          "silicon-iam-supported-api-versions": "v1",
          "x-request-id": randomUUID(),
          "x-iam-telemetry": recording ? "on" : "off",
          ...(request.key === undefined ? {} : { "idempotency-key": request.key }),
          ...request.headers
        },
        body: bodyOf(request),
        read: request.read
      })
    })
}

/** IAM refused the application's credentials in the plane of the call (identity-service.md 3, 9), not the token that it presented. */
export const refusesSecret = ({ code }: Pick<Refused, "code">): boolean =>
  code === "invalid_client" || code === "unauthenticated"

/** IAM refused the presented credential itself. */
export const refusesCredential = (refused: Refused): boolean =>
  refused.status !== 429 && refused.code !== "idempotency_in_progress" && !refusesSecret(refused)

/** Logs once when IAM begins to refuse the application's own secret, and once when it accepts it again. */
export const makeSecretWatch = (applicationId: string) => {
  let isRefused = false
  return <A>(call: Effect.Effect<A, UpstreamFailure>): Effect.Effect<A, UpstreamFailure> =>
    call.pipe(
      Effect.tap(() => {
        if (!isRefused) return Effect.void
        isRefused = false
        return Effect.logInfo("IAM accepts the application's secret again")
      }),
      Effect.tapErrorTag("Refused", (refused) => {
        if (isRefused || !refusesSecret(refused)) return Effect.void
        isRefused = true
        return Effect.logError("IAM refuses the application's secret: no session can begin or be checked", {
          failure: `${refused.status} ${refused.code}`,
          advice: `set MUSIC_IAM_APP_SECRET to the current secret of the application ${applicationId} at IAM and restart, or enable the application there`,
          upstreamRequestId: refused.requestId
        })
      })
    )
}
