/** Control of applications: secrets, approved scopes, endpoints and webhooks. */
import { planeOf } from "./Environments.ts"
import { randomToken, randomWebhookSecret, shapes } from "./Grammar.ts"
import {
  type App,
  type Endpoint,
  mint,
  type PlaneId,
  production,
  type State,
  type Webhook,
  type WebhookCategory
} from "./Model.ts"

export const appOf = (state: State, plane: PlaneId, appId: string): App => {
  const app = planeOf(state, plane).apps.get(appId)
  if (app === undefined) throw new Error(`there is no application ${appId} in ${plane}`)
  return app
}

/** An imported app inherits production's webhook until its own is set (identity-service.md 11.4). */
export const webhookOf = (state: State, app: App): Webhook | undefined =>
  app.webhook ?? (app.imported ? state.planes.get(production)?.apps.get(app.appId)?.webhook : undefined)

const endpointOf = (state: State, plane: PlaneId, appId: string, endpointId: string): Endpoint => {
  const endpoint = appOf(state, plane, appId).endpoints.get(endpointId)
  if (endpoint === undefined) throw new Error(`${appId} has no endpoint ${endpointId} in ${plane}`)
  return endpoint
}

export interface EndpointInput {
  readonly endpointId: string
  readonly path: string
  /** Seconds; default 300, the service's own. */
  readonly ttlSeconds?: number
  readonly critical?: boolean
  readonly metadata?: Readonly<Record<string, unknown>>
}

export interface WebhookInput {
  readonly url: string
  readonly secret?: string
  readonly keyVersion?: number
}

const makeWebhook = (state: State, input: WebhookInput): Webhook => {
  const secret = input.secret ?? randomWebhookSecret()
  if (!shapes.webhookSecret.test(secret))
    throw new Error("a webhook secret is 32 to 512 visible ASCII characters")
  return { url: new URL(input.url).href, secret: mint(state, secret), keyVersion: input.keyVersion ?? 1 }
}

const makeSecret = (state: State, given: string | undefined): string => {
  const secret = given ?? randomToken("ask")
  if (!shapes.appSecret.test(secret)) throw new Error("an application secret is ask_ and 43 characters")
  return mint(state, secret)
}

const makeEndpoints = (inputs: ReadonlyArray<EndpointInput>): Map<string, Endpoint> =>
  new Map(
    inputs.map((input) => [
      input.endpointId,
      {
        endpointId: input.endpointId,
        path: input.path,
        ttlSeconds: input.ttlSeconds ?? 300,
        critical: input.critical ?? true,
        metadata: input.metadata ?? {},
        active: true
      }
    ])
  )

export const apps = (state: State) => ({
  addApp: (
    plane: PlaneId,
    options: {
      readonly appId: string
      readonly orgId: string
      readonly name?: string
      readonly baseUrl?: string
      readonly visibility?: App["visibility"]
      readonly secret?: string
      readonly scopes: ReadonlyArray<string>
      readonly endpoints?: ReadonlyArray<EndpointInput>
      readonly webhook?: WebhookInput
      readonly webhookScope?: ReadonlyArray<WebhookCategory>
    }
  ) => {
    if (!shapes.appId.test(options.appId)) throw new Error(`${options.appId} is no app id`)
    const app: App = {
      appId: options.appId,
      orgId: options.orgId,
      name: options.name ?? options.appId,
      baseUrl: options.baseUrl ?? `https://${options.appId}.example`,
      visibility: options.visibility ?? "public",
      imported: false,
      secret: makeSecret(state, options.secret),
      status: "active",
      approvedScopes: new Set(options.scopes),
      endpoints: makeEndpoints(options.endpoints ?? []),
      webhook: options.webhook === undefined ? undefined : makeWebhook(state, options.webhook),
      webhookScope: options.webhookScope ?? ["full"]
    }
    planeOf(state, plane).apps.set(app.appId, app)
    return { secret: app.secret, webhook: app.webhook }
  },

  /** Copies a production application into an environment, with a secret of its own. */
  importApp: (plane: PlaneId, appId: string, options: { readonly secret?: string } = {}) => {
    const source = appOf(state, production, appId)
    const app: App = {
      ...source,
      imported: true,
      secret: makeSecret(state, options.secret),
      endpoints: new Map([...source.endpoints].map(([id, endpoint]) => [id, { ...endpoint }])),
      webhook: undefined
    }
    planeOf(state, plane).apps.set(appId, app)
    return { secret: app.secret }
  },

  rotateSecret: (plane: PlaneId, appId: string): string => {
    const app = appOf(state, plane, appId)
    app.secret = makeSecret(state, undefined)
    return app.secret
  },

  disableApp: (plane: PlaneId, appId: string): void => {
    appOf(state, plane, appId).status = "disabled"
  },

  enableApp: (plane: PlaneId, appId: string): void => {
    appOf(state, plane, appId).status = "active"
  },

  setApprovedScopes: (plane: PlaneId, appId: string, scopes: ReadonlyArray<string>): void => {
    appOf(state, plane, appId).approvedScopes = new Set(scopes)
  },

  withdrawEndpoint: (plane: PlaneId, appId: string, endpointId: string): void => {
    endpointOf(state, plane, appId, endpointId).active = false
  },

  restoreEndpoint: (plane: PlaneId, appId: string, endpointId: string): void => {
    endpointOf(state, plane, appId, endpointId).active = true
  },

  changeEndpointPath: (plane: PlaneId, appId: string, endpointId: string, path: string): void => {
    endpointOf(state, plane, appId, endpointId).path = path
  },

  /** Seconds. */
  setTtl: (plane: PlaneId, appId: string, endpointId: string, ttlSeconds: number): void => {
    endpointOf(state, plane, appId, endpointId).ttlSeconds = ttlSeconds
  },

  setEndpointMetadata: (
    plane: PlaneId,
    appId: string,
    endpointId: string,
    metadata: Readonly<Record<string, unknown>>
  ): void => {
    endpointOf(state, plane, appId, endpointId).metadata = metadata
  },

  /**
   * Points a webhook elsewhere. Without a secret the current one and its version stay; an application of a testing
   * plane that inherited production's gets a secret of its own. A new secret has the next version unless one is given.
   */
  setWebhook: (plane: PlaneId, appId: string, input: WebhookInput): Webhook => {
    const app = appOf(state, plane, appId)
    const before = webhookOf(state, app)
    app.webhook =
      app.webhook !== undefined && input.secret === undefined
        ? {
            ...app.webhook,
            url: new URL(input.url).href,
            keyVersion: input.keyVersion ?? app.webhook.keyVersion
          }
        : makeWebhook(state, { keyVersion: (before?.keyVersion ?? 0) + 1, ...input })
    return app.webhook
  },

  rotateWebhookSecret: (plane: PlaneId, appId: string, secret?: string): Webhook => {
    const app = appOf(state, plane, appId)
    const before = webhookOf(state, app)
    if (before === undefined) throw new Error(`${appId} has no webhook in ${plane}`)
    app.webhook = makeWebhook(state, {
      url: before.url,
      keyVersion: before.keyVersion + 1,
      ...(secret === undefined ? {} : { secret })
    })
    return app.webhook
  },

  setWebhookScope: (plane: PlaneId, appId: string, scope: ReadonlyArray<WebhookCategory>): void => {
    appOf(state, plane, appId).webhookScope = scope
  }
})
