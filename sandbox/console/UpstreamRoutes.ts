/** The calls that the service, or Ting, makes at each upstream, for faults of one of them. */
import type { Upstream } from "./Protocol.ts"

interface UpstreamRoute {
  /** `METHOD /path`. */
  readonly name: string
  readonly method: string
  readonly path: string | RegExp
}

const route = (name: string): UpstreamRoute => {
  const [method = "", path = ""] = name.split(" ")
  const pattern = path.replace(/\{\w+\}/g, "[^/]+")
  return { name, method, path: pattern === path ? path : new RegExp(`^${pattern}$`) }
}

export const upstreamRoutes = (
  repository: string
): Readonly<Record<Upstream, ReadonlyArray<UpstreamRoute>>> => ({
  iam: [
    "POST /api/v1/app-auth/tokens",
    "POST /api/v1/oauth/introspect",
    "POST /api/v1/oauth/revoke",
    "POST /api/v1/obo-access/exchanges",
    "POST /api/v1/obo-access/verify",
    "GET /api/v1/obo-access/applications/ting/endpoints",
    "GET /api/v1/application/testing-context"
  ].map(route),
  ting: ["POST /v1/subscriptions", "POST /v1/tings"].map(route),
  tables: ["POST /api/ingest"].map(route),
  tracker: [
    `POST /repos/${repository}/issues`,
    `GET /repos/${repository}/issues`,
    `POST /repos/${repository}/issues/{number}/comments`,
    `PATCH /repos/${repository}/issues/{number}`,
    "GET /user"
  ].map(route)
})
