/** A logged-in deejay, for the tests of sessions. */
import * as Effect from "effect/Effect"
import type { Plane } from "../../src/services/Plane.ts"
import { Sessions } from "../../src/services/Sessions.ts"
import type { Login } from "./IamPlane.ts"
import { SimulatedIam } from "./SimulatedIam.ts"
import { StoreSwitches } from "./TestStore.ts"
import { bearer, callerKey, inRequest, production } from "./World.ts"

export const unknownToken = `oat_${"x".repeat(43)}`

export const login = (login: Partial<Login> = {}, key = callerKey("login")) =>
  Effect.gen(function* () {
    const iam = yield* SimulatedIam
    const sessions = yield* Sessions
    const slt = yield* iam.slt({ actor: "si:deejay", ...login })
    return yield* sessions.login(production, { slt, key }).pipe(inRequest())
  })

/** The deejay is in one organisation, Ana in two; the deejay is logged in. */
export const prepared = Effect.gen(function* () {
  const iam = yield* SimulatedIam
  iam.production.addActor("si:deejay", ["acme"])
  iam.production.addActor("c:ana", ["harbor", "acme"])
  return { iam, store: yield* StoreSwitches, session: yield* login() }
})

export const authenticate = (token: string, organisation = "acme", plane: Plane = production) =>
  Effect.flatMap(Sessions, (sessions) =>
    sessions.authenticate(plane, bearer(token, organisation)).pipe(inRequest())
  )
