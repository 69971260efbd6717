/** The seed of a simulated IAM with the secrets of the tests. */
import { Redacted } from "effect"
import { type IamControls, type SeededEnvironment, seedIam } from "../../sandbox/upstreams/Iam.ts"
import { Testing, type TestingPlane } from "../../src/services/Plane.ts"
import { testApplicationSecret, testWebhookSecret } from "./Settings.ts"

export const seedTestIam = (controls: IamControls) =>
  seedIam(controls, { musicSecret: testApplicationSecret, webhookSecret: testWebhookSecret })

/** The plane that the environment's secret selects. */
export const testingPlaneOf = (environment: SeededEnvironment): TestingPlane =>
  Testing({
    environmentId: environment.environmentId,
    secret: Redacted.make(environment.musicSecret),
    webhookKeyDigest: environment.webhookKeyDigest
  })
