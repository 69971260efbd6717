/** Logins and sessions, for the tests of the use cases. */
import { Effect, Option, Redacted } from "effect"
import type { Plane } from "../../src/services/Plane.ts"
import { Sessions } from "../../src/services/usecases/Sessions.ts"
import { type Login, SimulatedIam } from "./SimulatedIam.ts"
import { StoreSwitches } from "./TestStore.ts"
import { bearer, callerKey, inRequest, production } from "./UseCaseLayers.ts"

export const login = (slt: Redacted.Redacted, key = callerKey("login"), plane: Plane = production) =>
  Effect.flatMap(Sessions, (sessions) => sessions.login(plane, { token: slt, key })).pipe(inRequest())

/** A login with a fresh SLT; of the deejay by default. */
export const loginAs = (who: Partial<Login> = {}, key = callerKey("login")) =>
  Effect.gen(function* () {
    const iam = yield* SimulatedIam
    return yield* login(yield* iam.slt({ actor: "si:deejay", ...who }), key)
  })

export const logout = (token: string, key = callerKey("logout")) =>
  Effect.flatMap(Sessions, (sessions) =>
    sessions.logout(production, { token: Redacted.make(token), key })
  ).pipe(inRequest())

/** The deejay's session. */
export const loggedIn = Effect.gen(function* () {
  return { iam: yield* SimulatedIam, store: yield* StoreSwitches, session: yield* loginAs() }
})

export const authenticate = (token: string, organisation = "acme", plane: Plane = production) =>
  Effect.flatMap(Sessions, (sessions) =>
    sessions.authenticate(plane, bearer(token, organisation)).pipe(inRequest())
  )

export const isLive = (token: string) => Effect.map(Effect.option(authenticate(token)), Option.isSome)
