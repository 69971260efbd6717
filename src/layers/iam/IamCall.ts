/** One call to IAM: base URL, headers, credentials and plane selector (identity-service.md 1, 9). */
import { randomUUID } from "node:crypto"
import * as HttpBody from "@effect/platform/HttpBody"
import type { HttpClient } from "@effect/platform/HttpClient"
import * as UrlParams from "@effect/platform/UrlParams"
import * as Context from "effect/Context"
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

/** Bytes (identity-service.md 1). */
const maxResponseBytes = 4 * 1024 * 1024

/** Seconds for which IAM blocks a caller over its limit (identity-service.md 1). */
const maxRetryAfterSeconds = 60

const versionHeader = "silicon-iam-api-version"

const bodyOf = ({ form, json }: IamRequest<unknown>): { readonly body?: HttpBody.HttpBody } => {
  if (form !== undefined) return { body: HttpBody.urlParams(UrlParams.fromInput(form)) }
  return json === undefined ? {} : { body: jsonBody(JSON.stringify(json)) }
}

/** `Basic base64(app_id ":" app_secret)`. */
const basic = (applicationId: string, secret: Redacted.Redacted): string =>
  `Basic ${Buffer.from(`${applicationId}:${Redacted.value(secret)}`).toString("base64")}`

const selectorOf = ({ testing }: ApplicationCredentials, authorization: string) =>
  testing ? { "x-testing-application": authorization } : {}

// The default, which work outside of a request sees.
const noRequest = Context.get(Context.empty(), RequestContext)

export const makeIamCall = (client: HttpClient, settings: SettingsValues["iam"]): IamCall => {
  const upstream = makeUpstream(client, {
    dependency: "iam",
    url: settings.url,
    timeoutSeconds: 8,
    maxResponseBytes,
    failureOf: envelopeFailure({
      requestIdHeader: "x-request-id",
      maxRetryAfterSeconds,
      // identity-service.md 1: the concurrency cap answers before anything is done.
      notExecutedCode: "server_overloaded"
    }),
    // identity-service.md 1.2: absent is accepted on ordinary calls.
    rejectHeaders: (headers) =>
      (headers[versionHeader] ?? "v1") === "v1" ? undefined : "answered in another version of its contract"
  })
  return (credentials, request) =>
    Effect.flatMap(RequestContext, (info) => {
      const authorization = basic(settings.applicationId, credentials.secret)
      return upstream({
        operation: request.operation,
        method: request.method,
        path: `/api/v1${request.path}`,
        headers: {
          authorization,
          ...selectorOf(credentials, authorization),
          "silicon-iam-supported-api-versions": "v1",
          "x-request-id": randomUUID(),
          "x-iam-telemetry": info !== noRequest && !info.recording ? "off" : "on",
          ...(request.key === undefined ? {} : { "idempotency-key": request.key }),
          ...request.headers
        },
        ...bodyOf(request),
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
  const reportRefusal = ({ code, requestId, status }: Refused) =>
    Effect.logError("IAM refuses the application's secret: no session can begin or be checked", {
      failure: `${status} ${code}`,
      advice: `set MUSIC_IAM_APP_SECRET to the current secret of the application ${applicationId} at IAM and restart, or enable the application there`,
      ...(requestId === undefined ? {} : { upstreamRequestId: requestId })
    })
  const reportAccepted = Effect.logInfo("IAM accepts the application's secret again")

  return <A>(call: Effect.Effect<A, UpstreamFailure>): Effect.Effect<A, UpstreamFailure> =>
    Effect.matchEffect(call, {
      onSuccess: (answer) => {
        if (!isRefused) return Effect.succeed(answer)
        isRefused = false
        return Effect.as(reportAccepted, answer)
      },
      onFailure: (failure) => {
        if (failure._tag !== "Refused" || !refusesSecret(failure) || isRefused) return Effect.fail(failure)
        isRefused = true
        return Effect.zipRight(reportRefusal(failure), Effect.fail(failure))
      }
    })
}
