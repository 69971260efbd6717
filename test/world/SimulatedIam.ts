/**
 * The ports `Iam` and `Ting` as the real clients over the simulated systems, in memory and on the clock of the test. `SimulatedIam` and
 * `SimulatedTing` are the test's control: people, environments, short-lived tokens, grants, and the switches of the ports.
 */
import { HttpClient } from "@effect/platform/HttpClient"
import { Context, Effect, Layer, Option, Redacted } from "effect"
import { production, seedEnvironment, signWebhook } from "../../sandbox/upstreams/Iam.ts"
import { HttpIam } from "../../src/layers/iam/HttpIam.ts"
import { HttpTing } from "../../src/layers/ting/HttpTing.ts"
import {
  Iam,
  type IamService,
  type Introspection,
  type TokenGrant,
  type WebhookEvent
} from "../../src/services/Iam.ts"
import { Settings } from "../../src/services/Settings.ts"
import { Store } from "../../src/services/Store.ts"
import { Ting } from "../../src/services/Ting.ts"
import type { UpstreamFailure } from "../../src/services/UpstreamFailure.ts"
import { aroundCalls } from "./Around.ts"
import { testingPlaneOf } from "./SeededIam.ts"
import { testWebhookSecret } from "./Settings.ts"
import { makeFaultSwitches } from "./FaultSwitches.ts"
import { origins, testUpstreams } from "./Upstreams.ts"

export type IamMethod = Exclude<keyof IamService, "verifyWebhook">

export interface Login {
  readonly actor: string
  /** Default: all approved scopes. */
  readonly scopes?: ReadonlyArray<string>
}

interface DeliveryOptions<Environment> {
  readonly environment?: Environment
  readonly withoutEnvironment?: boolean
  readonly rewrite?: (text: string) => string
}

interface Recipient {
  /** Default `production`. */
  readonly plane?: string
  readonly organisation: string
  readonly publicId: string
}

const make = Effect.gen(function* () {
  const upstreams = yield* testUpstreams
  const { controls } = upstreams.iam
  const settings = yield* Settings
  const own = Layer.succeed(Settings, {
    ...settings,
    // The budget has its own tests; here it never refuses.
    iam: { ...settings.iam, url: origins.iam, callsPerMinute: 1_000_000 },
    ting: { ...settings.ting, url: origins.ting }
  })
  const below = Layer.mergeAll(
    Layer.succeed(HttpClient, upstreams.client),
    Layer.succeed(Store, yield* Store),
    own
  )
  const ports = yield* Layer.build(Layer.provide(Layer.merge(HttpIam, HttpTing), below))
  const iam = Context.get(ports, Iam)

  const { around, ...switches } = makeFaultSwitches<IamMethod, UpstreamFailure>()
  const seen = <M extends IamMethod>(method: M) => switches.seen<Parameters<IamService[M]>>(method)
  let change = (introspection: Introspection): Introspection => introspection
  let changeGrant = (grant: TokenGrant): TokenGrant => grant
  const watched = aroundCalls(iam, around)
  const iamPort: IamService = {
    ...watched,
    exchange: (...call) => Effect.map(watched.exchange(...call), (grant) => changeGrant(grant)),
    refresh: (...call) => Effect.map(watched.refresh(...call), (grant) => changeGrant(grant)),
    introspect: (...call) =>
      Effect.map(
        watched.introspect(...call),
        Option.map((found) => change(found))
      )
  }

  /** The people and the approved scopes of one plane. */
  const planeState = (id: string) => {
    const approved = () => [...(controls.plane(id).apps.get("music")?.approvedScopes ?? [])]
    const approve = (scopes: ReadonlyArray<string>) => controls.setApprovedScopes(id, "music", scopes)
    return {
      id,
      addActor: (publicId: string, organisations: ReadonlyArray<string>) => {
        controls.addActor(id, publicId)
        for (const organisation of organisations) controls.addMembership(id, publicId, organisation)
      },
      setMember: (publicId: string, organisation: string, active: boolean) => {
        if (active) controls.addMembership(id, publicId, organisation)
        else controls.removeMembership(id, publicId, organisation)
      },
      withdrawScope: (scope: string) => approve(approved().filter((name) => name !== scope)),
      approveScope: (scope: string) => approve([...approved(), scope])
    }
  }
  const inProduction = planeState(production)
  /** Makes a testing environment with a secret for this application. */
  const makeEnvironment = (name: string) => {
    const environment = seedEnvironment(controls, name)
    upstreams.addPlane(environment.environmentId)
    const plane = testingPlaneOf(environment)
    const { environmentId, rootKey } = environment
    return { plane, secret: plane.secret, rootKey, state: planeState(environmentId) }
  }
  type Environment = ReturnType<typeof makeEnvironment>

  /** A signed delivery; in production by default. `rewrite` changes the text before it is signed. */
  const delivery = (event: Omit<WebhookEvent, "testing">, options: DeliveryOptions<Environment> = {}) =>
    Effect.sync(() => {
      const { environment, rewrite = (text: string) => text, withoutEnvironment = false } = options
      const { eventId, eventType, occurredAt, organisationUuid: organizationId, data } = event
      const aggregate = { type: event.aggregateType, id: event.aggregateId, version: event.aggregateVersion }
      const signed = controls.buildWebhook(
        environment?.state.id ?? production,
        { eventId, eventType, occurredAt, organizationId, aggregate, data },
        { withoutEnvironment }
      )
      const body = Buffer.from(rewrite(signed.body.toString()))
      const timestamp = signed.headers["X-Silicon-IAM-Timestamp"] ?? ""
      const headers = {
        ...signed.headers,
        "X-Silicon-IAM-Signature": signWebhook(testWebhookSecret, timestamp, body)
      }
      return { rawHeaders: Object.entries(headers).flat(), body }
    })

  const simulated = {
    ...switches,
    production: inProduction,
    environment: (name: string) => Effect.sync(() => makeEnvironment(name)),
    /** Revokes the environment's secret. */
    deleteEnvironment: ({ state }: Environment) => Effect.sync(() => controls.deleteEnvironment(state.id)),
    /** Mints a short-lived token; in production by default. */
    slt: (login: Login, state = inProduction) =>
      Effect.sync(() => Redacted.make(controls.mintSlt(state.id, { appId: "music", ...login }))),
    /** Changes every later introspection. */
    alter: (next: typeof change) =>
      Effect.sync(() => {
        change = next
      }),
    /** Changes every later grant. */
    alterGrant: (next: typeof changeGrant) =>
      Effect.sync(() => {
        changeGrant = next
      }),
    /** Upstream keys in the order of the calls. */
    keys: (method: "exchange" | "refresh" | "revoke") =>
      Effect.map(seen(method), (all) => all.map(([, , key]) => key)),
    /** Values of the tokens in revocation requests. */
    revoked: Effect.map(seen("revoke"), (all) => all.map(([, token]) => Redacted.value(token))),
    delivery
  }

  const { around: aroundTing, ...ofTing } = makeFaultSwitches<"register" | "send", UpstreamFailure>()
  const grants = upstreams.ting.controls
  const simulatedTing = {
    ...ofTing,
    /** The recipient withdraws the grant; registering again gives it back. */
    revokeGrant: ({ organisation: org, plane = production, publicId }: Recipient) =>
      Effect.sync(() => grants.revokeGrant({ plane, org, app_id: "music", for: publicId })),
    isRegistered: ({ organisation, plane = production, publicId }: Recipient) =>
      Effect.sync(() =>
        grants
          .grants(plane)
          .some((grant) => grant.active && grant.org === organisation && grant.for === publicId)
      )
  }
  return { iamPort, tingPort: aroundCalls(Context.get(ports, Ting), aroundTing), simulated, simulatedTing }
})
type Made = Effect.Effect.Success<typeof make>

export type SimulatedIamService = Made["simulated"]
export class SimulatedIam extends Context.Tag("test/SimulatedIam")<SimulatedIam, SimulatedIamService>() {}
export class SimulatedTing extends Context.Tag("test/SimulatedTing")<
  SimulatedTing,
  Made["simulatedTing"]
>() {}

export const layer = Layer.scopedContext(
  Effect.map(make, ({ iamPort, simulated, simulatedTing, tingPort }) =>
    Context.make(Iam, iamPort).pipe(
      Context.add(Ting, tingPort),
      Context.add(SimulatedIam, simulated),
      Context.add(SimulatedTing, simulatedTing)
    )
  )
)
