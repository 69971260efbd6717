/** Programmatic control of the simulated IAM: everything that a test or the sandbox changes or reads from outside. */
import { sha256 } from "../Contract.ts"
import { makeWebhooks } from "./Events.ts"
import {
  type App,
  type Endpoint,
  type Environment,
  type Family,
  kindOf,
  known,
  lifetimes,
  makePlane,
  type Membership,
  mint,
  type Plane,
  type PlaneId,
  planeOf,
  production,
  randomRootKey,
  randomToken,
  type Session,
  type State,
  uuidAt
} from "./Model.ts"
import { activeOrganizations, membershipId, newSession } from "./Tokens.ts"

interface AppInput {
  readonly appId: string
  readonly orgId: string
  readonly name?: string
  readonly secret?: string
  readonly scopes: ReadonlyArray<string>
  readonly endpoints?: ReadonlyArray<Omit<Endpoint, "active">>
  readonly webhook?: { readonly url: string; readonly secret?: string }
}

/** Planes: testing environments are created and deleted (identity-service.md 9). */
const environments = (state: State) => ({
  plane: (id: PlaneId): Plane => planeOf(state, id),

  addEnvironment: ({ name, orgId }: { readonly orgId: string; readonly name: string }) => {
    const rootKey = mint(state, randomRootKey())
    const now = state.now()
    const environment: Environment = { orgId, name, id: uuidAt(now), createdAt: now, rootKey, deleted: false }
    state.planes.set(environment.id, makePlane(environment.id, environment))
    return { environmentId: environment.id, rootKey, webhookKeyDigest: sha256(rootKey) }
  },

  /** Ends every secret, token and identity of the environment. */
  deleteEnvironment: (id: PlaneId): void => {
    const { environment } = planeOf(state, id)
    if (environment !== undefined) environment.deleted = true
  }
})

/** Organisations, actors and memberships. A change of a membership raises its version. */
const people = (state: State) => ({
  /** Returns the organisation's UUID. */
  addOrganization: (plane: PlaneId, handle: string, name: string): string => {
    const id = uuidAt(state.now())
    planeOf(state, plane).organizations.set(handle, { id, handle, name })
    return id
  },

  addActor: (plane: PlaneId, publicId: string): void => {
    const kind = kindOf(publicId)
    if (kind === undefined) throw new Error(`${publicId} is not a public id`)
    planeOf(state, plane).actors.set(publicId, kind)
  },

  /** Adds or restores a membership. A Silicon has exactly one. */
  addMembership: (planeId: PlaneId, actor: string, org: string): Membership => {
    const plane = planeOf(state, planeId)
    known(plane.organizations, org)
    const elsewhere = activeOrganizations(plane, actor).some((handle) => handle !== org)
    if (known(plane.actors, actor) === "silicon" && elsewhere)
      throw new Error(`${actor} is in another organisation`)
    const id = membershipId(actor, org)
    const { id: uuid = uuidAt(state.now()), version = 0 } = plane.memberships.get(id) ?? {}
    const membership: Membership = { id: uuid, actor, org, status: "active", version: version + 1 }
    plane.memberships.set(id, membership)
    return membership
  },

  /** Takes effect at once and sends no webhook; `events.about` makes the event. */
  removeMembership: (plane: PlaneId, actor: string, org: string): void => {
    const membership = known(planeOf(state, plane).memberships, membershipId(actor, org))
    membership.status = "removed"
    membership.version += 1
  }
})

/** Applications: secrets, approved scopes, endpoints and webhooks. */
const applications = (state: State) => {
  const appOf = (plane: PlaneId, appId: string): App => known(planeOf(state, plane).apps, appId)
  return {
    addApp: (plane: PlaneId, { appId, endpoints = [], orgId, scopes, webhook, ...more }: AppInput) => {
      const app: App = {
        appId,
        orgId,
        name: more.name ?? appId,
        imported: false,
        secret: mint(state, more.secret ?? randomToken("ask")),
        approvedScopes: new Set(scopes),
        endpoints: new Map(endpoints.map((endpoint) => [endpoint.endpointId, { ...endpoint, active: true }])),
        webhook: webhook && {
          url: webhook.url,
          secret: mint(state, webhook.secret ?? randomToken("whs")),
          keyVersion: 1
        }
      }
      planeOf(state, plane).apps.set(appId, app)
      return { secret: app.secret, webhook: app.webhook }
    },

    /** Copies a production application into an environment, with a secret of its own. */
    importApp: (plane: PlaneId, appId: string) => {
      const source = appOf(production, appId)
      const secret = mint(state, randomToken("ask"))
      const endpoints = new Map([...source.endpoints].map(([id, endpoint]) => [id, { ...endpoint }]))
      planeOf(state, plane).apps.set(appId, {
        ...source,
        imported: true,
        secret,
        endpoints,
        webhook: undefined
      })
      return { secret }
    },

    rotateSecret: (plane: PlaneId, appId: string): string => {
      const app = appOf(plane, appId)
      app.secret = mint(state, randomToken("ask"))
      return app.secret
    },

    setApprovedScopes: (plane: PlaneId, appId: string, scopes: ReadonlyArray<string>): void => {
      appOf(plane, appId).approvedScopes = new Set(scopes)
    },

    /** Withdraws, restores or moves an endpoint. */
    setEndpoint: (
      plane: PlaneId,
      appId: string,
      endpointId: string,
      change: Partial<Pick<Endpoint, "active" | "path">>
    ): void => {
      Object.assign(known(appOf(plane, appId).endpoints, endpointId), change)
    },

    /** Moves a webhook to another URL, with its secret and version. */
    setWebhook: (plane: PlaneId, appId: string, { url }: { readonly url: string }): void => {
      const app = appOf(plane, appId)
      if (app.webhook !== undefined) app.webhook = { ...app.webhook, url }
    }
  }
}

interface Login {
  readonly appId: string
  readonly actor: string
  readonly orgs?: ReadonlyArray<string>
  readonly scopes?: ReadonlyArray<string>
}

/** Short-lived tokens, parent sessions and leases of keys. */
const logins = (state: State) => ({
  /**
   * Consents to `scopes` (default: all approved ones) for `orgs` (default: all active ones of the actor), as the
   * consent screen does, and makes an SLT of 120 s. Each call starts a parent session.
   */
  mintSlt: (planeId: PlaneId, { actor, appId, ...chosen }: Login): string => {
    const plane = planeOf(state, planeId)
    const app = known(plane.apps, appId)
    const kind = known(plane.actors, actor)
    const reachable = activeOrganizations(plane, actor)
    const { orgs = reachable, scopes = [...app.approvedScopes] } = chosen
    if (kind === "silicon" && orgs.length !== 1) throw new Error("a Silicon grants exactly one organisation")
    const token = mint(state, randomToken("oac"))
    const session = newSession(state, actor, orgs)
    const expiresAt = state.now() + lifetimes.slt
    plane.slts.set(token, { token, appId, session, scopes, expiresAt, spent: false })
    return token
  },

  /** The family of an access or refresh token of any plane. */
  familyOf: (token: string): Family | undefined => {
    for (const plane of state.planes.values()) {
      const found = plane.accessTokens.get(token) ?? plane.refreshTokens.get(token)
      if (found !== undefined) return found.family
    }
    return undefined
  },

  /** The newest parent session of an actor from which a login is still alive. */
  sessionOf: (planeId: PlaneId, actor: string): Session | undefined =>
    [...planeOf(state, planeId).families.values()]
      .reverse()
      .find((family) => family.actor === actor && family.status === "active")?.session,

  /** Ends every login that was made from a parent session. */
  endSession: (planeId: PlaneId, session: Session): void => {
    for (const family of planeOf(state, planeId).families.values())
      if (family.session.id === session.id && family.status === "active") family.status = "revoked"
  },

  /** Answers 409 `idempotency_in_progress` to every request with this key, for the 30 s of a lease. */
  holdIdempotency: (key: string): void => {
    state.held.set(key, state.now() + lifetimes.lease)
  },

  /** Ends the lease early. */
  releaseIdempotency: (key: string): void => {
    state.held.delete(key)
  }
})

export const makeControls = (state: State) => ({
  ...environments(state),
  ...people(state),
  ...applications(state),
  ...logins(state),
  ...makeWebhooks(state)
})

/** Every control is synchronous. An unknown name throws. */
export type IamControls = ReturnType<typeof makeControls>

const musicScopes = [
  "self.identity.read",
  "self.profile.read",
  "obo:ting:subscriptions.register",
  "obo:ting:tings.send"
]

const tingEndpoints = [
  { endpointId: "subscriptions.register", path: "/v1/subscriptions", ttlSeconds: 60 },
  { endpointId: "tings.send", path: "/v1/tings", ttlSeconds: 60 }
]

/** Two organisations and three actors. Returns the UUIDs of the organisations by handle. */
const seedPeople = (controls: IamControls, plane: PlaneId) => {
  const organizations = {
    acme: controls.addOrganization(plane, "acme", "Acme"),
    zenith: controls.addOrganization(plane, "zenith", "Zenith")
  }
  for (const actor of ["si:deejay", "si:lyra", "c:ana"]) {
    controls.addActor(plane, actor)
    controls.addMembership(plane, actor, "acme")
  }
  controls.addMembership(plane, "c:ana", "zenith")
  return organizations
}

/** One more environment with the people and applications of `seedIam`. The applications are imported, so that the webhooks use production's URL and secret. */
export const seedEnvironment = (controls: IamControls, name: string) => {
  const environment = controls.addEnvironment({ orgId: "acme", name })
  const plane = environment.environmentId
  return {
    plane,
    ...environment,
    organizations: seedPeople(controls, plane),
    musicSecret: controls.importApp(plane, "music").secret,
    tingSecret: controls.importApp(plane, "ting").secret
  }
}

/** The secrets and ids of a seeded environment. */
export type SeededEnvironment = ReturnType<typeof seedEnvironment>

/**
 * Production and the environment `music e2e` with the organisations `acme` and `zenith`, the silicons `si:deejay` and `si:lyra` in
 * acme, the carbon `c:ana` in both, and the applications `music` and `ting`. Secrets are random unless given.
 */
export const seedIam = (
  controls: IamControls,
  given: { readonly webhookSecret?: string; readonly musicSecret?: string } = {}
) => {
  const organizations = seedPeople(controls, production)
  const music = controls.addApp(production, {
    appId: "music",
    orgId: "music",
    name: "Music",
    scopes: musicScopes,
    webhook: {
      // `setWebhook` moves it to the server's address later and keeps the secret.
      url: "http://127.0.0.1:8787/webhook/",
      ...(given.webhookSecret === undefined ? {} : { secret: given.webhookSecret })
    },
    ...(given.musicSecret === undefined ? {} : { secret: given.musicSecret })
  })
  const ting = controls.addApp(production, {
    appId: "ting",
    orgId: "tos",
    name: "Ting",
    scopes: ["self.identity.read"],
    endpoints: tingEndpoints
  })
  return {
    production: {
      plane: production,
      musicSecret: music.secret,
      tingSecret: ting.secret,
      webhookSecret: music.webhook?.secret ?? "",
      webhookKeyVersion: music.webhook?.keyVersion ?? 1,
      organizations
    },
    environment: seedEnvironment(controls, "music e2e")
  }
}

export type SeededIam = ReturnType<typeof seedIam>
