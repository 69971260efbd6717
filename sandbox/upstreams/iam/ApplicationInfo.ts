/** Routes that describe applications: the testing context and the endpoint catalogue (identity-service.md 9.1, 10). */
import type { Reply } from "../Simulator.ts"
import { forbidden, notFound, validationFailed } from "./Errors.ts"
import { kindOf, rfc3339, sha256, shapes } from "./Identifiers.ts"
import type { App } from "./Model.ts"
import { type Call, refuseOrgHeader } from "./Requests.ts"

const appScope = (app: App) => {
  const scopes = [...app.approvedScopes].sort()
  return {
    iam: scopes.filter((scope) => !scope.startsWith("obo:")),
    external: scopes.flatMap((scope) => {
      const parts = /^obo:([^:]+):(.+)$/.exec(scope)
      return parts === null ? [] : [{ app_id: parts[1], endpoint_id: parts[2] }]
    })
  }
}

/** Describes the caller's testing plane; the answer holds no credential (identity-service.md 9.1). */
export const testingContext = ({ app, plane }: Call): Reply => {
  const { environment } = plane
  if (environment === undefined) throw forbidden("this route needs a testing environment")
  return {
    status: 200,
    body: {
      environment: {
        environment_id: environment.id,
        org_id: environment.orgId,
        name: environment.name,
        description: null,
        version: 1,
        key_generation: 1,
        cleaned_at: null,
        created_at: rfc3339(environment.createdAt),
        creator_type: kindOf(environment.creator),
        creator_id: environment.creator
      },
      environment_id: environment.id,
      application: {
        app_id: app.appId,
        app_name: app.name,
        app_logo: null,
        base_url: `https://${app.appId}.example`,
        app_scope: appScope(app),
        webhook_scope: ["full"],
        testing_idle_days: 30
      },
      webhook_key_digest: sha256(environment.rootKey)
    }
  }
}

/** All active endpoints of an application, independent of the caller's scopes (identity-service.md 10.1). */
export const catalogue = (call: Call): Reply => {
  refuseOrgHeader(call.request)
  if (!shapes.appId.test(call.param))
    throw validationFailed({ field: "app_id", message: "must be an app id" })
  const app = call.plane.apps.get(call.param)
  if (app === undefined) throw notFound()
  const endpoints = [...app.endpoints.values()]
    .filter((endpoint) => endpoint.active)
    .sort((left, right) => (left.endpointId < right.endpointId ? -1 : 1))
  return {
    status: 200,
    body: {
      application: { app_id: app.appId, org_id: app.orgId },
      endpoints: endpoints.map((endpoint) => ({
        endpoint_id: endpoint.endpointId,
        path: endpoint.path,
        metadata: {},
        critical: true,
        ttl_seconds: endpoint.ttlSeconds
      }))
    }
  }
}
