/** One call to IAM: base URL, headers, credentials and plane selector (identity-service.md 1, 9). */
import { randomUUID } from "node:crypto"
import * as HttpBody from "@effect/platform/HttpBody"
import type { HttpClient } from "@effect/platform/HttpClient"
import * as UrlParams from "@effect/platform/UrlParams"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { UpstreamKey } from "../../services/Iam.ts"
import type { Plane, PlaneId } from "../../services/Plane.ts"
import { RequestContext } from "../../services/RequestContext.ts"
import type { SettingsValues } from "../../services/Settings.ts"
import type { Refused, UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { envelopeFailure } from "../upstream/ErrorEnvelope.ts"
import { makeUpstream } from "../upstream/Upstream.ts"
import type { ResponseReader } from "../upstream/UpstreamResponse.ts"

/** A call with neither a form nor JSON is a GET. */
export interface IamRequest<A> {
  readonly operation: string
  /** Below `/api/v1`. */
  readonly path: string
  readonly form?: Readonly<Record<string, string>>
  readonly json?: unknown
  readonly key?: UpstreamKey
  readonly headers?: Readonly<Record<string, string>>
  readonly read: ResponseReader<A>
}

/** What a call to IAM counts as. */
export interface Counting {
  /** Undefined for a testing secret that IAM has not resolved; that of the call if absent. */
  readonly plane?: PlaneId | undefined
  /** The key of the credential (`Credentials`); none for the application's own calls. */
  readonly credential?: string | undefined
  /** `login` exchanges an SLT; the others present a token of the session. */
  readonly use?: "login" | "refresh" | "logout"
  /** It probes the path for the call of the credential: it has the class of that call, and counts for no login, actor or turn. */
  readonly isProbe?: boolean
}

/**
 * Makes a call within the budget, or fails with 429 and the seconds after which it finds a place. `completedKey`: of the token whose
 * introspection completes an exchange.
 */
export type Ask = <A>(
  plane: Plane,
  request: IamRequest<A>,
  counting?: Counting,
  completedKey?: (answer: A) => string
) => Effect.Effect<A, UpstreamFailure>

/** Where proofs are exchanged, below `/api/v1`. */
export const exchangesPath = "/obo-access/exchanges"

const versionHeader = "silicon-iam-api-version"

const bodyOf = ({ form, json }: IamRequest<unknown>): HttpBody.HttpBody | undefined => {
  if (form !== undefined) return HttpBody.urlParams(UrlParams.fromInput(form))
  return json === undefined ? undefined : HttpBody.unsafeJson(json)
}

/** The application's secret in a plane. Nothing falls back to production. */
export const secretOf = ({ applicationSecret }: SettingsValues["iam"], plane: Plane): Redacted.Redacted =>
  plane._tag === "Testing" ? plane.secret : applicationSecret

export const makeIamCall = (client: HttpClient, settings: SettingsValues["iam"]) => {
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
  return <A>(plane: Plane, request: IamRequest<A>): Effect.Effect<A, UpstreamFailure> =>
    Effect.flatMap(RequestContext, ({ recording }) => {
      const { headers, key, operation, path, read } = request
      const secret = Redacted.value(secretOf(settings, plane))
      const authorization = `Basic ${Buffer.from(`${settings.applicationId}:${secret}`).toString("base64")}`
      const body = bodyOf(request)
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
        read
      })
    })
}

/** IAM refused the application's credentials in the plane of the call (identity-service.md 3, 9), not the token that it presented. */
export const refusesSecret = ({ code, status }: Refused): boolean =>
  status !== 429 && (code === "invalid_client" || code === "unauthenticated")

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
