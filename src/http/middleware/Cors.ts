/** Cross-origin access for the configured web origins, on all of `/api/v1`. */
import type { Route } from "./Routes.ts"

const prefix = "/api/v1/"

const allowedHeaders = [
  "Authorization",
  "Content-Type",
  "Idempotency-Key",
  "X-Org-ID",
  "X-Request-Id",
  "X-Testing-Environment-Key",
  "X-Music-Telemetry",
  "X-Music-Source",
  "traceparent"
].join(", ")

const exposedHeaders = ["X-Request-Id", "Retry-After", "RateLimit", "RateLimit-Policy"].join(", ")

/** Seconds that a browser may remember a preflight. */
const maxAge = "600"

type Headers = Readonly<Record<string, string>>

const none: Headers = {}
// Said to everybody once there is a list: a cache must not give one origin's answer to another.
const varying: Headers = { vary: "Origin" }

export interface Cors {
  /** What an answer carries for this origin. */
  readonly headersFor: (path: string, origin: string | undefined) => Headers
  /** What the answer to `OPTIONS` carries besides, when it is a preflight of an allowed origin. */
  readonly preflightFor: (route: Route, path: string, origin: string | undefined, asked: boolean) => Headers
}

export const corsFor = (origins: ReadonlyArray<string>): Cors => {
  const allows = (path: string, origin: string | undefined): origin is string =>
    origin !== undefined && path.startsWith(prefix) && origins.includes(origin)
  return {
    headersFor: (path, origin) => {
      if (origins.length === 0 || !path.startsWith(prefix)) return none
      return allows(path, origin)
        ? {
            ...varying,
            "access-control-allow-origin": origin,
            "access-control-expose-headers": exposedHeaders
          }
        : varying
    },
    preflightFor: (route, path, origin, asked) =>
      asked && allows(path, origin)
        ? {
            "access-control-allow-methods": route.allow,
            "access-control-allow-headers": allowedHeaders,
            "access-control-max-age": maxAge
          }
        : none
  }
}
