/** The real server, use cases and IAM client against the simulated IAM, under the test clock. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type Bounds, httpServerWith, Listening } from "../../src/http/Server.ts"
import { HttpIam } from "../../src/layers/iam/HttpIam.ts"
import { HttpTing } from "../../src/layers/ting/HttpTing.ts"
import { UndiciTransport } from "../../src/layers/upstream/UndiciTransport.ts"
import { startTing } from "../../sandbox/upstreams/Ting.ts"
import { clientTables } from "../../src/schema/Telemetry.ts"
import { Drain } from "../../src/services/Drain.ts"
import { Settings } from "../../src/services/Settings.ts"
import { type Answer, call, jsonHeaders, type Sent } from "../http/support.ts"
import { iamWorld, type iamWorldNow } from "../layers/iam/Simulated.ts"
import { simulated } from "../layers/upstream/Simulated.ts"
import { type SettingsOverrides, testSettings } from "./Settings.ts"
import * as SimulatedTables from "./SimulatedTables.ts"
import * as TestStore from "./TestStore.ts"
import { servicesWith, withoutDelivery } from "./UseCaseLayers.ts"

/** Requests come through a trusted proxy, so that a test can use any number of addresses. */
export const serverOverIam = (
  bounds: Bounds = {},
  overrides: SettingsOverrides = {},
  makeIam: typeof iamWorldNow = iamWorld
) =>
  Effect.gen(function* () {
    const iam = yield* makeIam()
    const ting = yield* simulated((now) =>
      startTing({ now, iamUrl: iam.simulator.url, appSecret: iam.seeded.tingSecret })
    )
    const settings = testSettings({
      rateLimit: true,
      trustedProxies: ["127.0.0.0/8"],
      ...overrides,
      iam: { url: iam.simulator.url, ...overrides.iam },
      ting: { url: ting.url, ...overrides.ting }
    })
    const ports = Layer.mergeAll(HttpIam, HttpTing, SimulatedTables.layer(clientTables)).pipe(
      Layer.provideMerge(TestStore.layer),
      Layer.provideMerge(Drain.Default),
      Layer.provide(UndiciTransport),
      Layer.provideMerge(Layer.succeed(Settings, settings))
    )
    const context = yield* Layer.build(
      httpServerWith(bounds).pipe(Layer.provide(servicesWith(withoutDelivery)), Layer.provide(ports))
    )
    const { port } = Context.get(context, Listening)
    const from =
      (address: string) =>
      (sent: Sent & { readonly headers?: Readonly<Record<string, string>> }): Effect.Effect<Answer> =>
        call({ port }, { ...sent, headers: { ...sent.headers, "x-forwarded-for": address } })
    return { ...iam, ting, from }
  })

let keys = 0
/** A key that was never used. */
export const freshKey = (): string => {
  keys += 1
  return `key-${String(keys).padStart(20, "0")}`
}

const posted = (path: string, body: unknown, key = freshKey()) => ({
  method: "POST",
  path: `/api/v1/auth/${path}`,
  headers: { ...jsonHeaders, "idempotency-key": key },
  body: JSON.stringify(body)
})

export const asks = {
  me: (token: string) => ({
    path: "/api/v1/auth/me",
    headers: { authorization: `Bearer ${token}`, "x-org-id": "acme" }
  }),
  login: (slt: string, key?: string) => posted("login", { slt }, key),
  refresh: (token: string, key?: string) => posted("refresh", { refresh_token: token }, key),
  logout: (token: string, key?: string) => posted("logout", { token }, key),
  testing: (secret: string) => ({
    path: "/api/v1/iam",
    headers: { "x-testing-environment-key": secret }
  })
}
