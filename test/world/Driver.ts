/** Requests to the service and its answers, as suites write and read them. */

export interface Sent {
  /** Default: POST with a body, else GET. */
  readonly method?: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Buffer
}

export interface Answer {
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
}

export const isSuccess = ({ status }: Pick<Answer, "status">): boolean => status >= 200 && status < 300

export const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The fields of a JSON object; none of another text. */
export const fieldsOf = (text: string): Readonly<Record<string, unknown>> => {
  try {
    const value: unknown = JSON.parse(text)
    return isRecord(value) ? value : {}
  } catch {
    return {}
  }
}

export const bodyOf = ({ text }: Pick<Answer, "text">) => fieldsOf(text)

/** The envelope of an error; undefined of a success, and where the body is none. */
export const refusalOf = (answer: Answer) => {
  const { error } = bodyOf(answer)
  if (isSuccess(answer) || !isRecord(error)) return undefined
  const { code, details, hint, message, retryable } = error
  return typeof code === "string" && typeof message === "string" && typeof hint === "string"
    ? { code, message, hint, retryable: retryable === true, details: isRecord(details) ? details : {} }
    : undefined
}

export const codeOf = (answer: Answer): string | undefined => refusalOf(answer)?.code

/** Seconds; undefined without the header. */
export const retryAfterOf = ({ headers }: Answer): number | undefined => {
  const given = headers["retry-after"]
  return given === undefined ? undefined : Number(given)
}

/** Headers of every answer (docs/api.md, "Conventions"), written apart from the service. The page of the documentation has a policy of its own. */
export const securityHeadersOfEveryAnswer: ReadonlyMap<string, string> = new Map([
  ["content-security-policy", "default-src 'none'; frame-ancestors 'none'"],
  ["cross-origin-resource-policy", "cross-origin"],
  ["referrer-policy", "no-referrer"],
  ["x-content-type-options", "nosniff"],
  ["x-frame-options", "DENY"]
])

/** The connection broke, as `fetch` reports it. */
export const connectionLost = (code: "ECONNRESET" | "ECONNREFUSED"): TypeError =>
  new TypeError("fetch failed", { cause: Object.assign(new Error(code), { code }) })

export const json = { "content-type": "application/json" } as const

/** The headers of a call with a session. */
export const bearer = (token: string, organisation = "acme") => ({
  authorization: `Bearer ${token}`,
  "x-org-id": organisation
})

/** Selects the plane of a testing secret; production without one. */
export const selecting = (secret: string | undefined): Readonly<Record<string, string>> =>
  secret === undefined ? {} : { "x-testing-environment-key": secret }

export const keyed = (key: string) => ({ "idempotency-key": key })

export const post = <H extends Readonly<Record<string, string>> = typeof json>(
  path: string,
  body: unknown,
  headers?: H
) => ({
  method: "POST" as const,
  path,
  headers: { ...json, ...(headers as H) },
  body: JSON.stringify(body)
})

/** A request of every call of the API that has credentials and content. */
export const requests = {
  login: (slt: string, key: string, secret?: string) =>
    post("/api/v1/auth/login", { slt }, { ...keyed(key), ...selecting(secret) }),
  refresh: (refresh_token: string, key: string, secret?: string) =>
    post("/api/v1/auth/refresh", { refresh_token }, { ...keyed(key), ...selecting(secret) }),
  logout: (token: string, key: string, secret?: string) =>
    post("/api/v1/auth/logout", { token }, { ...keyed(key), ...selecting(secret) }),
  me: (token: string, secret?: string) => ({
    path: "/api/v1/auth/me",
    headers: { ...bearer(token), ...selecting(secret) }
  }),
  subscribe: (token: string, secret?: string) =>
    post("/api/v1/ting/subscription", {}, { ...bearer(token), ...selecting(secret) }),
  ting: (token: string, key: string, data: unknown = {}, secret?: string) =>
    post(
      "/api/v1/tings",
      { type: "music.trigger.fired", key, data },
      { ...bearer(token), ...selecting(secret) }
    ),
  report: (message: string, key: string, token?: string) =>
    post("/api/v1/reports", { message }, { ...keyed(key), ...(token === undefined ? {} : bearer(token)) }),
  telemetry: (events: ReadonlyArray<Readonly<Record<string, unknown>>>, table = "musicclidaemon") =>
    post("/api/v1/telemetry", { table, events }),
  plane: (secret?: string) => ({ path: "/api/v1/iam", headers: selecting(secret) })
} as const
