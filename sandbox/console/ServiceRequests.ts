/** The requests that the console sends as a client of the service would, with the headers of `docs/api.md`. */
import { createHash, randomUUID } from "node:crypto"
import type { Outgoing } from "./Outgoing.ts"
import type { KnownSession } from "./Sessions.ts"

type Headers = Readonly<Record<string, string>>

/** The service in one plane. */
export interface Service {
  /** Without a trailing slash. */
  readonly base: string
  readonly plane: string
  /** The value of `X-Testing-Environment-Key`; `null` in production. */
  readonly testingKey: string | null
}

const request = (
  { base, plane, testingKey }: Service,
  path: string,
  sent: { readonly headers: Headers; readonly body?: unknown; readonly source?: "cli" | "daemon" | "web" }
): Outgoing => ({
  from: "console",
  to: "backend",
  plane,
  method: sent.body === undefined ? "GET" : "POST",
  url: `${base}${path}`,
  headers: {
    ...(sent.body === undefined ? {} : { "content-type": "application/json" }),
    "x-music-source": sent.source ?? "cli",
    ...(testingKey === null ? {} : { "x-testing-environment-key": testingKey }),
    ...sent.headers
  },
  body: sent.body === undefined ? undefined : JSON.stringify(sent.body),
  makes: []
})

/** A key that no other caller can choose. */
const newKey = (name: string): Headers => ({ "idempotency-key": `${name}-${randomUUID()}` })

/** The key of a token's refresh: repeating the refresh repeats the key. */
const keyOfRefresh = (token: string): Headers => ({
  "idempotency-key": `refresh-${createHash("sha256").update(token).digest("hex").slice(0, 32)}`
})

const bearer = ({ accessToken }: KnownSession, org: string): Headers => ({
  authorization: `Bearer ${accessToken}`,
  "x-org-id": org
})

/** The bearer of a call that needs none. */
const optionalBearer = (session: KnownSession | null, org: string | null): Headers =>
  session === null || org === null ? {} : bearer(session, org)

export const loginRequest = (service: Service, slt: string): Outgoing =>
  request(service, "/api/v1/auth/login", { body: { slt }, headers: newKey("login") })

export const meRequest = (service: Service, session: KnownSession, org: string): Outgoing =>
  request(service, "/api/v1/auth/me", { headers: bearer(session, org) })

export const refreshRequest = (service: Service, refreshToken: string): Outgoing =>
  request(service, "/api/v1/auth/refresh", {
    body: { refresh_token: refreshToken },
    headers: keyOfRefresh(refreshToken)
  })

/** The same under a new key, as a thief of the token would. */
export const reuseRequest = (service: Service, refreshToken: string): Outgoing =>
  request(service, "/api/v1/auth/refresh", {
    body: { refresh_token: refreshToken },
    headers: newKey("refresh")
  })

export const logoutRequest = (service: Service, { refreshToken }: KnownSession): Outgoing =>
  request(service, "/api/v1/auth/logout", { body: { token: refreshToken }, headers: newKey("logout") })

export const tingRequest = (
  service: Service,
  session: KnownSession,
  ting: { readonly org: string; readonly type: string; readonly key: string; readonly data: unknown }
): Outgoing =>
  request(service, "/api/v1/tings", {
    body: { type: ting.type, key: ting.key, data: ting.data },
    headers: bearer(session, ting.org)
  })

export const reportRequest = (
  service: Service,
  session: KnownSession | null,
  report: { readonly org: string | null; readonly message: string }
): Outgoing =>
  request(service, "/api/v1/reports", {
    body: { message: report.message },
    headers: { ...newKey("report"), ...optionalBearer(session, report.org) }
  })

/** The event's id becomes the id of its record. */
export const telemetryRequest = (
  service: Service,
  session: KnownSession | null,
  event: {
    readonly org: string | null
    readonly table: string
    readonly type: string
    readonly data: unknown
  }
): Outgoing => {
  const id = randomUUID()
  return {
    ...request(service, "/api/v1/telemetry", {
      body: { table: event.table, events: [{ id, type: event.type, data: event.data }] },
      headers: optionalBearer(session, event.org),
      source: event.table === "musicclidaemon" ? "daemon" : "web"
    }),
    makes: [id]
  }
}
