/** The requests of the service's clients, with the headers of `docs/api.md`: for the scenario, the console and the documentation page. */
import { createHash, randomUUID } from "node:crypto"
import type { JsonObject } from "./upstreams/Contract.ts"

type Headers = Readonly<Record<string, string>>

/** A request as it is sent. */
export interface ServiceRequest {
  readonly method: string
  readonly url: string
  readonly headers: Headers
  readonly body: string | undefined
}

/** Who calls. The header of an empty organisation is left out. */
export interface Caller {
  readonly accessToken: string
  readonly org: string
}

/** A key that no other caller can choose. */
const newKey = (name: string): Headers => ({ "idempotency-key": `${name}-${randomUUID()}` })

/** The key of a token's refresh: repeating the refresh repeats the key. */
const keyOfRefresh = (token: string): Headers => ({
  "idempotency-key": `refresh-${createHash("sha256").update(token).digest("hex").slice(0, 32)}`
})

const bearer = (caller: Caller | null): Headers =>
  caller === null
    ? {}
    : {
        authorization: `Bearer ${caller.accessToken}`,
        ...(caller.org === "" ? {} : { "x-org-id": caller.org })
      }

/** JSON of an object whose last field holds JSON text as it was written, so that the service judges it. */
const withText = (fields: object, name: string, text: string): string =>
  `${JSON.stringify(fields).slice(0, -1)},${JSON.stringify(name)}:${text}}`

/** `base` has no trailing slash. `testingKey` selects a testing plane. */
export const makeServiceClient = (base: string, testingKey: string | null = null) => {
  const request = (
    path: string,
    headers: Headers,
    body: string | undefined,
    source: "cli" | "daemon" | "web" = "cli"
  ): ServiceRequest => ({
    method: body === undefined ? "GET" : "POST",
    url: `${base}${path}`,
    headers: {
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      "x-music-source": source,
      ...(testingKey === null ? {} : { "x-testing-environment-key": testingKey }),
      ...headers
    },
    body
  })
  const refresh = (token: string, key: Headers) =>
    request("/api/v1/auth/refresh", key, JSON.stringify({ refresh_token: token }))
  return {
    discover: () => request("/api/v1/iam", {}, undefined),
    login: (slt: string) => request("/api/v1/auth/login", newKey("login"), JSON.stringify({ slt })),
    me: (caller: Caller) => request("/api/v1/auth/me", bearer(caller), undefined),
    /** A retry repeats the key of the token's refresh, and gets the same pair. */
    refresh: (token: string) => refresh(token, keyOfRefresh(token)),
    /** The same under a new key, as a thief of the token would. */
    reuse: (token: string) => refresh(token, newKey("refresh")),
    logout: (token: string) => request("/api/v1/auth/logout", newKey("logout"), JSON.stringify({ token })),
    /** `data` is JSON text. */
    ting: (caller: Caller, ting: { readonly type: string; readonly key: string; readonly data: string }) =>
      request(
        "/api/v1/tings",
        bearer(caller),
        withText({ type: ting.type, key: ting.key }, "data", ting.data)
      ),
    report: (caller: Caller | null, message: string) =>
      request("/api/v1/reports", { ...newKey("report"), ...bearer(caller) }, JSON.stringify({ message })),
    /** `data` is JSON text. The event's id becomes the id of its record. */
    telemetry: (
      caller: Caller | null,
      event: { readonly id: string; readonly table: string; readonly type: string; readonly data: string }
    ) =>
      request(
        "/api/v1/telemetry",
        bearer(caller),
        withText(
          { table: event.table },
          "events",
          `[${withText({ id: event.id, type: event.type }, "data", event.data)}]`
        ),
        event.table === "musicclidaemon" ? "daemon" : "web"
      )
  }
}

/** The tokens of the answer to a login or a refresh; `undefined` in any other. */
export const tokensIn = ({ access_token: access, refresh_token: refresh }: JsonObject) =>
  typeof access === "string" && typeof refresh === "string" ? { access, refresh } : undefined

export type ServiceClient = ReturnType<typeof makeServiceClient>
