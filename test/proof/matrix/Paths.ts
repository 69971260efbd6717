/** The paths of the upstreams that the service calls. */

export type UpstreamName = "iam" | "ting" | "tables" | "tracker"

interface Path {
  readonly upstream: UpstreamName
  readonly method: "GET" | "POST" | "PATCH"
  readonly pattern: RegExp
  /** As the contract writes it. */
  readonly text: string
}

export const paths = {
  tokens: {
    upstream: "iam",
    method: "POST",
    pattern: /^\/api\/v1\/app-auth\/tokens$/,
    text: "/app-auth/tokens"
  },
  introspect: {
    upstream: "iam",
    method: "POST",
    pattern: /^\/api\/v1\/oauth\/introspect$/,
    text: "/oauth/introspect"
  },
  revoke: {
    upstream: "iam",
    method: "POST",
    pattern: /^\/api\/v1\/oauth\/revoke$/,
    text: "/oauth/revoke"
  },
  context: {
    upstream: "iam",
    method: "GET",
    pattern: /^\/api\/v1\/application\/testing-context$/,
    text: "/application/testing-context"
  },
  endpoints: {
    upstream: "iam",
    method: "GET",
    pattern: /^\/api\/v1\/obo-access\/applications\/ting\/endpoints$/,
    text: "/obo-access/applications/ting/endpoints"
  },
  proof: {
    upstream: "iam",
    method: "POST",
    pattern: /^\/api\/v1\/obo-access\/exchanges$/,
    text: "/obo-access/exchanges"
  },
  register: { upstream: "ting", method: "POST", pattern: /^\/v1\/subscriptions$/, text: "/v1/subscriptions" },
  send: { upstream: "ting", method: "POST", pattern: /^\/v1\/tings$/, text: "/v1/tings" },
  ingest: { upstream: "tables", method: "POST", pattern: /^\/api\/ingest$/, text: "/api/ingest" },
  create: { upstream: "tracker", method: "POST", pattern: /\/issues$/, text: "POST …/issues" },
  list: { upstream: "tracker", method: "GET", pattern: /\/issues$/, text: "GET …/issues" },
  user: { upstream: "tracker", method: "GET", pattern: /^\/user$/, text: "GET /user" },
  comment: {
    upstream: "tracker",
    method: "POST",
    pattern: /\/issues\/\d+\/comments$/,
    text: "POST …/comments"
  },
  close: { upstream: "tracker", method: "PATCH", pattern: /\/issues\/\d+$/, text: "PATCH …/issues/{n}" }
} as const satisfies Readonly<Record<string, Path>>

export type PathName = keyof typeof paths

export const upstreamOf = (name: PathName): UpstreamName => paths[name].upstream
