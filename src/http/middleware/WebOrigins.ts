/** Which web origins may call: the CORS headers of `/api/v1`, and the refusal of telemetry from other origins. */
import { Failure } from "../../schema/Failure.ts"
import { daemonTable } from "../../schema/Telemetry.ts"
import { apiPrefix } from "../api/ApiPrefix.ts"

const allowedHeaders = [
  "Authorization",
  "Content-Type",
  "Idempotency-Key",
  "X-Org-ID",
  "X-Request-Id",
  "X-Testing-Environment-Key",
  "X-Music-Telemetry",
  "X-Music-Source",
  "X-Music-Client-Version",
  "traceparent"
].join(", ")

const exposedHeaders = [
  "X-Request-Id",
  "Retry-After",
  "RateLimit",
  "RateLimit-Policy",
  "X-Music-Min-Cli"
].join(", ")

/** Seconds that a browser may cache a preflight. */
const maxAge = "600"

type Headers = Readonly<Record<string, string>>

const none: Headers = {}
// Sent to every origin once there is a list: a cache must not give one origin's response to another.
const varying: Headers = { vary: "Origin" }

export interface WebOrigins {
  /** CORS headers of every response. */
  readonly responseHeaders: (path: string, origin: string | undefined) => Headers
  /** Further headers of the response to `OPTIONS`, when it is a preflight of an allowed origin. */
  readonly preflightHeaders: (
    path: string,
    allow: string,
    origin: string | undefined,
    requestedMethod: string | undefined
  ) => Headers
  /** Browsers may send telemetry from an allowed origin only, and never to the daemon's table. */
  readonly checkTelemetry: (
    origin: string | undefined,
    table: string
  ) => Failure<"origin_not_allowed"> | undefined
}

/** The rules for the configured origins (`MUSIC_WEB_ORIGINS`). */
export const makeWebOrigins = (origins: ReadonlyArray<string>): WebOrigins => {
  const isAllowed = (origin: string | undefined): origin is string =>
    origin !== undefined && origins.includes(origin)
  return {
    responseHeaders: (path, origin) => {
      if (origins.length === 0 || !path.startsWith(apiPrefix)) return none
      return isAllowed(origin)
        ? {
            ...varying,
            "access-control-allow-origin": origin,
            "access-control-expose-headers": exposedHeaders
          }
        : varying
    },
    preflightHeaders: (path, allow, origin, requestedMethod) =>
      requestedMethod !== undefined && path.startsWith(apiPrefix) && isAllowed(origin)
        ? {
            "access-control-allow-methods": allow,
            "access-control-allow-headers": allowedHeaders,
            "access-control-max-age": maxAge
          }
        : none,
    checkTelemetry: (origin, table) =>
      origin === undefined || (isAllowed(origin) && table !== daemonTable)
        ? undefined
        : new Failure("origin_not_allowed")
  }
}
