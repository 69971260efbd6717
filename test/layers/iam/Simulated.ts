/** The `Iam` port over HTTP against the simulated IAM, both on the clock of the test. */
import { Context, Effect, Layer, Redacted, TestClock } from "effect"
import { parts } from "../../../src/Backend.ts"
import { HttpIam } from "../../../src/layers/iam/HttpIam.ts"
import { startIam } from "../../../sandbox/upstreams/Iam.ts"
import { headerOf, type Seen } from "../../../sandbox/upstreams/Simulator.ts"
import { Iam, type UpstreamKey } from "../../../src/services/Iam.ts"
import { type Plane, Production } from "../../../src/services/Plane.ts"
import { RequestContext } from "../../../src/services/RequestContext.ts"
import { Settings } from "../../../src/services/Settings.ts"
import { seedTestIam, testingPlaneOf } from "../../world/SeededIam.ts"
import { type SettingsOverrides, testSettings } from "../../world/Settings.ts"
import * as TestStore from "../../world/TestStore.ts"
import { simulated } from "../upstream/Simulated.ts"

/** Milliseconds; the time of the contract's vectors. */
export const startTime = 1_790_331_330_000

// Tests name their keys; the real ones are digests.
export const key = (name: string): UpstreamKey => `${name}-0000000000000000` as UpstreamKey

export const production: Plane = Production()

export const iamOver = (url: string, overrides: SettingsOverrides["iam"] = {}) =>
  Layer.build(
    HttpIam.pipe(
      Layer.provide(parts.transport),
      Layer.provide(TestStore.layer),
      Layer.provide(Layer.succeed(Settings, testSettings({ iam: { url, ...overrides } })))
    )
  ).pipe(Effect.map((context) => Context.get(context, Iam)))

export const iamWorld = (overrides: SettingsOverrides["iam"] = {}) =>
  Effect.gen(function* () {
    yield* TestClock.setTime(startTime)
    const simulator = yield* simulated((now) => startIam({ now }))
    const { environment, production: seeded } = seedTestIam(simulator.controls)
    const iam = yield* iamOver(simulator.url, overrides)
    const testing = testingPlaneOf(environment)
    const asked = (path: string): ReadonlyArray<Seen> =>
      simulator.seen.filter((request) => request.path === `/api/v1${path}`)
    const slt = (actor = "si:deejay") =>
      Redacted.make(simulator.controls.mintSlt("production", { appId: "music", actor }))
    const login = (actor = "si:deejay") =>
      Effect.suspend(() => iam.exchange(production, slt(actor), key(`login-${simulator.seen.length}`)))
    const loginIn = (plane: Plane, actor = "si:deejay") =>
      Effect.suspend(() => iam.exchange(plane, Redacted.make(actor), key(`login-${simulator.seen.length}`)))
    const world = simulator.controls
    return { simulator, world, environment, seeded, iam, testing, asked, slt, login, loginIn }
  })

export const inRequest = (recording: boolean, clientNetwork = "", deadlineAt = Number.POSITIVE_INFINITY) =>
  Effect.provideService(RequestContext, {
    requestId: "background",
    source: "cli",
    recording,
    clientNetwork,
    deadlineAt
  })

/** The value of a header; `undefined` when it is absent or repeated. */
export const header = (request: Seen | undefined, name: string): string | undefined =>
  request === undefined ? undefined : headerOf(request, name)

export const form = (request: Seen | undefined): Readonly<Record<string, string>> =>
  Object.fromEntries(new URLSearchParams(request?.body.toString()))

/** A success with the given JSON, as a fault. */
export const reply = (body: unknown, status = 200) => ({ kind: "reply" as const, reply: { status, body } })

/** What IAM says of a live token, but for its organisations. */
export const liveAnswer = (issuedAt: number, changes: object = {}) => ({
  active: true,
  client_id: "music",
  session_id: "0199a0aa-0000-7000-8000-000000000001",
  scope: "self.identity.read self.profile.read",
  audience: "music",
  issued_at: issuedAt,
  expires_at: issuedAt + 1_800,
  authorization_epoch: 3,
  ...changes
})
