/** The seed of the simulated IAM with the secrets of the tests, and a Ting that asks that IAM, both in memory. */
import * as Redacted from "effect/Redacted"
import {
  type IamControls,
  makeIam,
  production,
  type SeededEnvironment,
  seedIam
} from "../../sandbox/upstreams/Iam.ts"
import { encodeReply, type Now } from "../../sandbox/upstreams/Simulator.ts"
import { makeTing } from "../../sandbox/upstreams/Ting.ts"
import { Testing, type TestingPlane } from "../../src/services/Plane.ts"
import { seenAt } from "./InMemory.ts"
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

export const iamUrl = "https://iam.test"
const tingTypes = ["music.trigger.fired", "music.trigger.expired"]

/** Ting's own calls to IAM are neither late nor lost: their faults are those of Ting. */
export const makeIamAndTing = (clocks: { readonly iam: Now; readonly ting: Now }, rateLimit?: number) => {
  const iam = makeIam({ now: clocks.iam, ...(rateLimit === undefined ? {} : { rateLimit }) })
  const seeded = seedTestIam(iam.controls)
  const ting = makeTing({
    now: clocks.ting,
    iamUrl,
    appSecret: seeded.production.tingSecret,
    fetch: (url, init) => {
      const reply = iam.handle(
        seenAt(clocks.iam(), {
          url: new URL(String(url)),
          method: init?.method === "GET" ? "GET" : "POST",
          headers: Object.fromEntries(new Headers(init?.headers)),
          body: typeof init?.body === "string" ? init.body : undefined
        })
      )
      return Promise.resolve(new Response(encodeReply(reply, {}).body.toString(), { status: reply.status }))
    }
  })
  const registerTypes = (plane: string) => {
    for (const type of tingTypes) ting.controls.registerType(plane, type)
  }
  for (const plane of [production, seeded.environment.environmentId]) registerTypes(plane)
  return { iam, seeded, ting, registerTypes }
}
