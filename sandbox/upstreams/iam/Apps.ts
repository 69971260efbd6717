/** Controls of applications: secrets, approved scopes, endpoints and webhooks. */
import { planeOf } from "./Environments.ts"
import { randomToken, randomWebhookSecret, shapes } from "./Identifiers.ts"
import { type App, type Endpoint, mint, type PlaneId, production, type State, type Webhook } from "./Model.ts"

export const appOf = (state: State, plane: PlaneId, appId: string): App => {
  const app = planeOf(state, plane).apps.get(appId)
  if (app === undefined) throw new Error(`there is no application ${appId} in ${plane}`)
  return app
}

/** An imported app uses production's webhook until it has its own (identity-service.md 11.4). */
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
  readonly ttlSeconds: number
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

export const apps = (state: State) => ({
  addApp: (
    plane: PlaneId,
    options: {
      readonly appId: string
      readonly orgId: string
      readonly name?: string
      readonly secret?: string
      readonly scopes: ReadonlyArray<string>
      readonly endpoints?: ReadonlyArray<EndpointInput>
      readonly webhook?: WebhookInput
    }
  ) => {
    const { appId, orgId, scopes, endpoints = [] } = options
    if (!shapes.appId.test(appId)) throw new Error(`${appId} is not an app id`)
    const app: App = {
      appId,
      orgId,
      name: options.name ?? appId,
      imported: false,
      secret: makeSecret(state, options.secret),
      approvedScopes: new Set(scopes),
      endpoints: new Map(endpoints.map((endpoint) => [endpoint.endpointId, { ...endpoint, active: true }])),
      webhook: options.webhook === undefined ? undefined : makeWebhook(state, options.webhook)
    }
    planeOf(state, plane).apps.set(appId, app)
    return { secret: app.secret, webhook: app.webhook }
  },

  /** Copies a production application into an environment, with a secret of its own. */
  importApp: (plane: PlaneId, appId: string) => {
    const source = appOf(state, production, appId)
    const app: App = {
      ...source,
      imported: true,
      secret: makeSecret(state, undefined),
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

  /**
   * Moves a webhook to another URL. Without a secret, the current one and its version stay. An application of a testing
   * plane that used production's webhook gets its own secret. A new secret has the next version.
   */
  setWebhook: (plane: PlaneId, appId: string, input: WebhookInput): Webhook => {
    const app = appOf(state, plane, appId)
    const before = webhookOf(state, app)
    app.webhook =
      app.webhook !== undefined && input.secret === undefined
        ? { ...app.webhook, url: new URL(input.url).href }
        : makeWebhook(state, { keyVersion: (before?.keyVersion ?? 0) + 1, ...input })
    return app.webhook
  }
})
