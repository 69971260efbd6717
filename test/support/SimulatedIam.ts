/**
 * The identity service as a layer: planes, tokens, replay and proofs in memory, driven by Effect's Clock. It provides the
 * port `Iam`, and `SimulatedIam` for the test's control: people, environments, short-lived tokens and faults.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { requestedScopes } from "../../src/schema/Identity.ts"
import {
  Iam,
  type IamService,
  type Introspection,
  type TingEndpoint,
  type TokenGrant,
  type UpstreamKey,
  type WebhookEvent,
  WebhookRejected
} from "../../src/services/Iam.ts"
import { type Plane, planeId, Testing, type TestingPlane } from "../../src/services/Plane.ts"
import type { Refused, UpstreamFailure } from "../../src/services/UpstreamFailure.ts"
import { digest, IamPlane, type Login, refused } from "./IamPlane.ts"
import { Records, replayWindows } from "./IamRecords.ts"
import { makeSwitches, type Switches } from "./Switches.ts"

export type IamMethod =
  | "exchange"
  | "refresh"
  | "revoke"
  | "introspect"
  | "resolvePlane"
  | "prove"
  | "warmCatalogue"

/** A request for a proof, as IAM saw it. */
export interface SeenProofRequest {
  readonly plane: string
  readonly organisation: string
  readonly endpoint: TingEndpoint
  readonly body: Uint8Array
  readonly key: UpstreamKey
}

export interface Environment {
  readonly plane: TestingPlane
  readonly secret: Redacted.Redacted
  readonly state: IamPlane
}

export interface SimulatedIamService extends Switches<IamMethod> {
  readonly production: IamPlane
  /** Makes a testing environment with a secret for this application. */
  readonly environment: (name: string) => Effect.Effect<Environment>
  /** Kills the environment's secret. */
  readonly deleteEnvironment: (environment: Environment) => Effect.Effect<void>
  /** Mints a short-lived token; in production by default. */
  readonly slt: (login: Login, state?: IamPlane) => Effect.Effect<Redacted.Redacted>
  /** Changes every later introspection. */
  readonly alter: (change: (introspection: Introspection) => Introspection) => Effect.Effect<void>
  /** Changes every later grant. */
  readonly alterGrant: (change: (grant: TokenGrant) => TokenGrant) => Effect.Effect<void>
  readonly proofRequests: Effect.Effect<ReadonlyArray<SeenProofRequest>>
  /** Upstream keys in the order of the calls. */
  readonly keys: (method: "exchange" | "refresh" | "revoke") => Effect.Effect<ReadonlyArray<UpstreamKey>>
  /** Values of the tokens that revocation was asked for. */
  readonly revoked: Effect.Effect<ReadonlyArray<string>>
  /** Seals an event so that `verifyWebhook` opens it. */
  readonly delivery: (
    event: WebhookEvent
  ) => Effect.Effect<{ readonly rawHeaders: ReadonlyArray<string>; readonly body: Uint8Array }>
  /** Ting's side: verifies and consumes a proof. */
  readonly consumeProof: (
    bearer: string,
    call: { readonly endpoint: TingEndpoint; readonly body: Uint8Array }
  ) => Effect.Effect<
    Either.Either<
      { readonly plane: string; readonly publicId: string; readonly organisation: string },
      string
    >
  >
}

export class SimulatedIam extends Context.Tag("test/SimulatedIam")<SimulatedIam, SimulatedIamService>() {}

interface PlaneEntry {
  readonly name: string
  readonly state: IamPlane
  readonly tokens: Records<TokenGrant>
  readonly revocations: Records<void>
}

const make = Effect.sync(() => {
  const { gate, ...switches } = makeSwitches<IamMethod>()
  const entryOf = (name: string): PlaneEntry => ({
    name,
    state: new IamPlane(name, requestedScopes),
    tokens: new Records(replayWindows.tokens),
    revocations: new Records(replayWindows.revoke)
  })
  const production = entryOf("production")
  const environments = new Map<string, PlaneEntry & { readonly plane: TestingPlane }>()
  const keys = {
    exchange: [] as Array<UpstreamKey>,
    refresh: [] as Array<UpstreamKey>,
    revoke: [] as Array<UpstreamKey>
  }
  const proofRequests: Array<SeenProofRequest> = []
  const revoked: Array<string> = []
  const deliveries = new Map<string, WebhookEvent>()
  let change = (introspection: Introspection): Introspection => introspection
  let changeGrant = (grant: TokenGrant): TokenGrant => grant

  /** Nothing falls back to production: a testing plane is found by its secret (identity-service.md 9). */
  const find = (plane: Plane): Effect.Effect<PlaneEntry, Refused> => {
    if (plane._tag === "Production") return Effect.succeed(production)
    const found = environments.get(Redacted.value(plane.secret))
    return found === undefined ? Effect.fail(refused(401, "unauthenticated")) : Effect.succeed(found)
  }

  const tokens = (
    method: "exchange" | "refresh",
    plane: Plane,
    credential: Redacted.Redacted,
    key: UpstreamKey
  ): Effect.Effect<TokenGrant, UpstreamFailure> =>
    Effect.gen(function* () {
      yield* gate.count(method)
      keys[method].push(key)
      const entry = yield* find(plane)
      const value = Redacted.value(credential)
      const { result, replayed } = yield* entry.tokens.run({
        key,
        payload: JSON.stringify([method, value]),
        keeps: ({ code }) => method === "refresh" && code === "invalid_grant",
        execute: (now) =>
          method === "exchange"
            ? entry.state.exchange(value, plane._tag === "Testing", now)
            : entry.state.refresh(value, now),
        meanwhile: gate.pass(method, "before")
      })
      yield* gate.pass(method, "after")
      return changeGrant({ ...result, replayed })
    })

  const introspect = (plane: Plane, token: Redacted.Redacted) =>
    Effect.gen(function* () {
      const entry = yield* find(plane)
      return yield* Effect.map(Clock.currentTimeMillis, (now) =>
        Option.map(entry.state.introspect(Redacted.value(token), now), change)
      ).pipe(gate.through("introspect"))
    })

  const iam: IamService = {
    exchange: (plane, slt, key) => tokens("exchange", plane, slt, key),
    refresh: (plane, refreshToken, key) => tokens("refresh", plane, refreshToken, key),
    revoke: (plane, token, key) =>
      Effect.gen(function* () {
        yield* gate.count("revoke")
        keys.revoke.push(key)
        revoked.push(Redacted.value(token))
        const entry = yield* find(plane)
        yield* entry.revocations.run({
          key,
          payload: Redacted.value(token),
          keeps: () => false,
          execute: () => Either.right(entry.state.revoke(Redacted.value(token))),
          meanwhile: gate.pass("revoke", "before")
        })
        yield* gate.pass("revoke", "after")
      }),
    introspect,
    resolvePlane: (secret) =>
      Effect.suspend(() => {
        const found = environments.get(Redacted.value(secret))
        return found === undefined
          ? Effect.fail(refused(401, "unauthenticated"))
          : Effect.succeed(found.plane)
      }).pipe(gate.through("resolvePlane")),
    prove: (plane, request) =>
      Effect.gen(function* () {
        const { organisation, endpoint, body, key } = request
        proofRequests.push({ plane: planeId(plane), organisation, endpoint, body, key })
        const { state } = yield* find(plane)
        const now = yield* Clock.currentTimeMillis
        const { bearer, path } = yield* state.prove(
          { subject: Redacted.value(request.subject), organisation, endpoint, body },
          now
        )
        return {
          bearer: Redacted.make(bearer),
          path,
          testing:
            plane._tag === "Testing"
              ? Option.some({
                  applicationSecret: Redacted.make(`ask_ting-${plane.environmentId}`),
                  environmentKey: Redacted.make(`root-${plane.environmentId}`)
                })
              : Option.none()
        }
      }).pipe(gate.through("prove")),
    warmCatalogue: () => gate.count("warmCatalogue"),
    verifyWebhook: ({ rawHeaders, body }) =>
      Effect.suspend(() => {
        const event = deliveries.get(`${rawHeaders.join("\n")}\n${digest(body)}`)
        return event === undefined
          ? Effect.fail(new WebhookRejected({ reason: "signature" }))
          : Effect.succeed(event)
      })
  }

  const simulated: SimulatedIamService = {
    ...switches,
    production: production.state,
    environment: (name) =>
      Effect.sync(() => {
        const hex = digest(name)
        const environmentId = `${hex.slice(0, 8)}-${hex.slice(8, 12)}-7${hex.slice(12, 15)}-8${hex.slice(15, 18)}-${hex.slice(18, 30)}`
        const secret = Redacted.make(`ask_${digest(`${name} secret`).slice(0, 43)}`)
        const plane = Testing({ environmentId, secret, webhookKeyDigest: digest(`root-${environmentId}`) })
        const entry = { ...entryOf(environmentId), plane }
        environments.set(Redacted.value(secret), entry)
        return { plane, secret, state: entry.state }
      }),
    deleteEnvironment: ({ secret }) => Effect.sync(() => environments.delete(Redacted.value(secret))),
    slt: (login, state = production.state) =>
      Effect.map(Clock.currentTimeMillis, (now) => Redacted.make(state.mintSlt(login, now))),
    alter: (next) =>
      Effect.sync(() => {
        change = next
      }),
    alterGrant: (next) =>
      Effect.sync(() => {
        changeGrant = next
      }),
    proofRequests: Effect.sync(() => [...proofRequests]),
    keys: (method) => Effect.sync(() => [...keys[method]]),
    revoked: Effect.sync(() => [...revoked]),
    delivery: (event) =>
      Effect.sync(() => {
        const body = new TextEncoder().encode(JSON.stringify({ event_id: event.eventId, data: event.data }))
        const rawHeaders = ["X-Silicon-IAM-Event-ID", event.eventId]
        deliveries.set(`${rawHeaders.join("\n")}\n${digest(body)}`, event)
        return { rawHeaders, body }
      }),
    consumeProof: (bearer, call) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        for (const { name, state } of [production, ...environments.values()]) {
          const found = state.consumeProof(bearer, call, now)
          if (Option.isSome(found)) return Either.map(found.value, (proof) => ({ plane: name, ...proof }))
        }
        return Either.left("invalid_proof")
      })
  }
  return Context.make(Iam, iam).pipe(Context.add(SimulatedIam, simulated))
})

export const layer: Layer.Layer<Iam | SimulatedIam> = Layer.effectContext(make)
