/** What an application may read about itself and others: testing context, directory, endpoint catalogue (identity-service.md 9.1, 10). */
import type { Reply } from "../Simulator.ts"
import { activeApp } from "./Authority.ts"
import { kindOf, rfc3339, sha256, shapes } from "./Grammar.ts"
import type { App } from "./Model.ts"
import { type Call, forbidden, notFound, refuseOrgHeader, validationFailed } from "./Wire.ts"

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

/** Tells a plane's application where it is; it holds no credential (identity-service.md 9.1). */
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
        description: environment.description,
        version: environment.version,
        key_generation: environment.keyGeneration,
        cleaned_at: environment.cleanedAt === null ? null : rfc3339(environment.cleanedAt),
        created_at: rfc3339(environment.createdAt),
        creator_type: kindOf(environment.creator),
        creator_id: environment.creator
      },
      environment_id: environment.id,
      application: {
        app_id: app.appId,
        app_name: app.name,
        app_logo: null,
        base_url: app.baseUrl,
        app_scope: appScope(app),
        webhook_scope: app.webhookScope,
        testing_idle_days: 30
      },
      webhook_key_digest: sha256(environment.rootKey)
    }
  }
}

const appOfPath = (call: Call): App => {
  const appId = call.params[0] ?? ""
  if (!shapes.appId.test(appId)) throw validationFailed({ field: "app_id", message: "must be an app id" })
  const app = activeApp(call.plane, appId)
  if (app === undefined) throw notFound()
  return app
}

/** Where an application is served (identity-service.md 10.4). */
export const directoryEntry = (call: Call): Reply => {
  const app = appOfPath(call)
  return { status: 200, body: { app_id: app.appId, base_url: app.baseUrl } }
}

/** All active endpoints, whatever the caller's own scopes (identity-service.md 10.1). */
export const catalogue = (call: Call): Reply => {
  refuseOrgHeader(call.request)
  const app = appOfPath(call)
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
        metadata: endpoint.metadata,
        critical: endpoint.critical,
        ttl_seconds: endpoint.ttlSeconds
      }))
    }
  }
}
