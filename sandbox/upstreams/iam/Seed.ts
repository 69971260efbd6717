/** The world that the sandbox and most tests begin with. */
import type { Plane, PlaneId } from "./Model.ts"
import { production } from "./Model.ts"
import type { World } from "./World.ts"

export const musicScopes = [
  "self.identity.read",
  "self.profile.read",
  "obo:ting:subscriptions.register",
  "obo:ting:tings.send"
] as const

const tingEndpoints = [
  { endpointId: "subscriptions.register", path: "/v1/subscriptions", ttlSeconds: 60 },
  { endpointId: "subscriptions.revoke", path: "/v1/subscriptions/revoke", ttlSeconds: 60 },
  { endpointId: "tings.send", path: "/v1/tings", ttlSeconds: 60 }
]

/** The secrets and ids of one seeded plane. */
export interface SeededPlane {
  readonly plane: PlaneId
  readonly musicSecret: string
  readonly tingSecret: string
  /** UUIDs by handle. */
  readonly organizations: { readonly acme: string; readonly zenith: string }
}

export interface SeededWorld {
  readonly production: SeededPlane & {
    readonly webhookSecret: string
    readonly webhookKeyVersion: number
  }
  /** The environment `music e2e`; its applications are imported, so its webhooks use production's URL and secret. */
  readonly environment: SeededPlane & {
    readonly environmentId: string
    readonly rootKey: string
    readonly webhookKeyDigest: string
  }
}

const seedPeople = (world: World, plane: Plane): SeededPlane["organizations"] => {
  const organizations = {
    acme: world.addOrganization(plane.id, "acme", { name: "Acme" }),
    zenith: world.addOrganization(plane.id, "zenith", { name: "Zenith" })
  }
  for (const actor of ["si:deejay", "si:lyra", "c:ana"]) {
    world.addActor(plane.id, actor)
    world.addMembership(plane.id, actor, "acme")
  }
  world.addMembership(plane.id, "c:ana", "zenith")
  return organizations
}

/**
 * Production and one environment with the organisations `acme` and `zenith`, the silicons `si:deejay` and `si:lyra` in
 * acme, the carbon `c:ana` in both, and the applications `music` and `ting`. Secrets are random unless given.
 */
export const seedWorld = (
  world: World,
  options: {
    /** Default `http://127.0.0.1:8787/webhook/`; `setWebhook` moves it later and keeps the secret. */
    readonly webhookUrl?: string
    readonly webhookSecret?: string
    readonly webhookKeyVersion?: number
    readonly musicSecret?: string
    readonly tingSecret?: string
    readonly tingUrl?: string
  } = {}
): SeededWorld => {
  const organizations = seedPeople(world, world.plane(production))
  for (const org of ["music", "tos"]) world.addOrganization(production, org)
  const music = world.addApp(production, {
    appId: "music",
    orgId: "music",
    name: "Music",
    scopes: musicScopes,
    webhook: {
      url: options.webhookUrl ?? "http://127.0.0.1:8787/webhook/",
      ...(options.webhookSecret === undefined ? {} : { secret: options.webhookSecret }),
      ...(options.webhookKeyVersion === undefined ? {} : { keyVersion: options.webhookKeyVersion })
    },
    ...(options.musicSecret === undefined ? {} : { secret: options.musicSecret })
  })
  const ting = world.addApp(production, {
    appId: "ting",
    orgId: "tos",
    name: "Ting",
    scopes: ["self.identity.read"],
    endpoints: tingEndpoints,
    ...(options.tingUrl === undefined ? {} : { baseUrl: options.tingUrl }),
    ...(options.tingSecret === undefined ? {} : { secret: options.tingSecret })
  })

  const environment = world.addEnvironment({ orgId: "acme", name: "music e2e" })
  const plane = environment.environmentId
  return {
    production: {
      plane: production,
      musicSecret: music.secret,
      tingSecret: ting.secret,
      webhookSecret: music.webhook?.secret ?? "",
      webhookKeyVersion: music.webhook?.keyVersion ?? 1,
      organizations
    },
    environment: {
      plane,
      ...environment,
      organizations: seedPeople(world, world.plane(plane)),
      musicSecret: world.importApp(plane, "music").secret,
      tingSecret: world.importApp(plane, "ting").secret
    }
  }
}
