/** People who can log in, for the tests of logins. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type { Plane } from "../../src/services/Plane.ts"
import { Sessions } from "../../src/services/Sessions.ts"
import { SimulatedIam } from "./SimulatedIam.ts"
import { bearer, callerKey, inRequest, production } from "./World.ts"

export const login = (slt: Redacted.Redacted, key = callerKey("login"), plane: Plane = production) =>
  Effect.flatMap(Sessions, (sessions) => sessions.login(plane, { slt, key })).pipe(inRequest())

/** Ana is in two organisations, the deejay in one. */
export const people = SimulatedIam

export const isLive = (token: string) =>
  Effect.flatMap(Sessions, (sessions) =>
    Effect.option(sessions.authenticate(production, bearer(token)).pipe(inRequest()))
  ).pipe(Effect.map(Option.isSome))
