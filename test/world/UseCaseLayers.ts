/** The use cases over simulated ports and a real store, fresh for each test, under the test clock. */
import { type Duration, Effect, Fiber, Layer, Redacted, TestClock, type TestServices } from "effect"
import { clientTables, type TableName } from "../../src/schema/Telemetry.ts"
import type { Credential } from "../../src/schema/Identity.ts"
import { Iam } from "../../src/services/Iam.ts"
import { attemptKey, Idempotency } from "../../src/services/combinators/Idempotency.ts"
import { Notifications } from "../../src/services/usecases/Notifications.ts"
import { type Plane, Production } from "../../src/services/Plane.ts"
import { Reports } from "../../src/services/usecases/Reports.ts"
import { RequestContext, type RequestInfo } from "../../src/services/RequestContext.ts"
import { Sessions } from "../../src/services/usecases/Sessions.ts"
import { Settings } from "../../src/services/Settings.ts"
import { Telemetry } from "../../src/services/usecases/Telemetry.ts"
import { NotExecuted, Unknown } from "../../src/services/UpstreamFailure.ts"
import { UpstreamPlaces } from "../../src/services/combinators/UpstreamPlaces.ts"
import { Webhooks } from "../../src/services/usecases/Webhooks.ts"
import { type Body, it, toEffect } from "./Test.ts"
import { type SettingsOverrides, testSettings } from "./Settings.ts"
import * as SimulatedIam from "./SimulatedIam.ts"
import * as SimulatedTables from "./SimulatedTables.ts"
import * as TestStore from "./TestStore.ts"

/** The initial time of the clock. Not a full second, so that rounding errors show. */
export const start = Date.parse("2026-11-21T10:00:00.400Z")

export interface UseCaseOptions {
  readonly settings?: SettingsOverrides
  /** Tables that have a key; default: all. */
  readonly tables?: ReadonlyArray<TableName>
}

const ports = ({ settings, tables }: UseCaseOptions) =>
  Layer.merge(SimulatedIam.layer, SimulatedTables.layer(tables ?? clientTables)).pipe(
    Layer.provideMerge(TestStore.layer),
    Layer.provideMerge(Layer.succeed(Settings, testSettings(settings)))
  )

const useCases = Layer.mergeAll(Telemetry.Default, Webhooks.Default, Reports.Default).pipe(
  Layer.provideMerge(Sessions.Default),
  Layer.provideMerge(Notifications.Default),
  Layer.provideMerge(Layer.merge(Idempotency.Default, UpstreamPlaces.Default))
)

const useCaseLayers = (options: UseCaseOptions = {}) => Layer.provideMerge(useCases, ports(options))

/** Runs an effect in a request that may be recorded and has a deadline of 25 s. */
export const inRequest =
  (info: Partial<RequestInfo> = {}) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.flatMap(TestClock.currentTimeMillis, (now) =>
      Effect.provideService(effect, RequestContext, {
        requestId: "request-1",
        source: "cli",
        clientNetwork: "192.0.2.1",
        recording: true,
        deadlineAt: now + 25_000,
        ...info
      })
    )

/** Runs an effect over fresh use cases and ports. */
export const withUseCases = <A, E, R>(effect: Effect.Effect<A, E, R>, options: UseCaseOptions = {}) =>
  // The clock is set first: set later, the background workers would run through every second since 1970.
  Effect.zipRight(TestClock.setTime(start), Effect.provide(effect, useCaseLayers(options)))

type UseCases = Layer.Layer.Success<ReturnType<typeof useCaseLayers>> | TestServices.TestServices

/** Tests over fresh use cases and ports. */
export const scenariosWith = (options: UseCaseOptions) =>
  Object.assign(
    (name: string, body: Body<UseCases, []>) =>
      it.effect(name, () => withUseCases(toEffect(body)(), options)),
    {
      each:
        <T>(cases: ReadonlyArray<T>) =>
        (name: string, body: Body<UseCases, [T]>) =>
          it.effect.each(cases)(name, (value) => withUseCases(toEffect(body)(value), options))
    }
  )
export const scenario = scenariosWith({})

/** Runs the effect while the clock advances, so that its sleeps end. */
export const advanceClockDuring = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  duration: Duration.DurationInput = "30 seconds"
): Effect.Effect<A, E, R> =>
  Effect.gen(function* () {
    const fiber = yield* Effect.fork(effect)
    yield* TestClock.adjust(duration)
    return yield* Fiber.join(fiber)
  })

export const callerKey = (text: string) => Redacted.make(`caller-key-${text}`.padEnd(24, "."))

export const production: Plane = Production()

export const bearer = (token: string, organisation = "acme"): Credential => ({
  token: Redacted.make(token),
  organisation
})

export const lost = (dependency: "iam" | "ting") => new Unknown({ dependency, reason: "connection lost" })
export const unreachable = (dependency: "iam" | "ting") =>
  new NotExecuted({ dependency, reason: "connection refused" })

/** A member of acme with a live token and no registration yet; in production, or in a new testing environment of that name. */
export const signedIn = (options: { readonly environment?: string; readonly actor?: string } = {}) =>
  Effect.gen(function* () {
    const simulated = yield* SimulatedIam.SimulatedIam
    const iam = yield* Iam
    const sessions = yield* Sessions
    const actor = options.actor ?? "si:deejay"
    const environment =
      options.environment === undefined ? undefined : yield* simulated.environment(options.environment)
    const plane: Plane = environment?.plane ?? production
    const state = environment?.state ?? simulated.production
    state.addActor(actor, ["acme"])
    const slt = yield* simulated.slt({ actor }, state)
    const { accessToken: token, refreshToken } = yield* iam.exchange(plane, slt, yield* attemptKey)
    const caller = yield* sessions.authenticate(plane, { token, organisation: "acme" })
    return { plane, state, caller, token, refreshToken }
  })
