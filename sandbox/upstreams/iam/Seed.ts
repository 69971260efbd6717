/** The people and applications that the sandbox and most tests start with. */
import type { IamControls } from "./Controls.ts"
import type { PlaneId } from "./Model.ts"
import { production } from "./Model.ts"

export const musicScopes = [
  "self.identity.read",
  "self.profile.read",
  "obo:ting:subscriptions.register",
  "obo:ting:tings.send"
] as const

const tingEndpoints = [
  { endpointId: "subscriptions.register", path: "/v1/subscriptions", ttlSeconds: 60 },
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

export interface SeededIam {
  readonly production: SeededPlane & {
    readonly webhookSecret: string
    readonly webhookKeyVersion: number
  }
  /** The environment `music e2e`. */
  readonly environment: SeededEnvironment
}

/** The applications are imported, so that the webhooks use production's URL and secret. */
export interface SeededEnvironment extends SeededPlane {
  readonly environmentId: string
  readonly rootKey: string
  readonly webhookKeyDigest: string
}

const seedPeople = (controls: IamControls, plane: PlaneId): SeededPlane["organizations"] => {
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

/** One more environment with the people and applications of `seedIam`. */
export const seedEnvironment = (controls: IamControls, name: string): SeededEnvironment => {
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

/**
 * Production and one environment with the organisations `acme` and `zenith`, the silicons `si:deejay` and `si:lyra` in
 * acme, the carbon `c:ana` in both, and the applications `music` and `ting`. Secrets are random unless given.
 */
export const seedIam = (
  controls: IamControls,
  options: { readonly webhookSecret?: string; readonly musicSecret?: string } = {}
): SeededIam => {
  const { musicSecret, webhookSecret } = options
  const organizations = seedPeople(controls, production)
  const music = controls.addApp(production, {
    appId: "music",
    orgId: "music",
    name: "Music",
    scopes: musicScopes,
    webhook: {
      // `setWebhook` moves it to the server's address later and keeps the secret.
      url: "http://127.0.0.1:8787/webhook/",
      ...(webhookSecret === undefined ? {} : { secret: webhookSecret })
    },
    ...(musicSecret === undefined ? {} : { secret: musicSecret })
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
