import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { Session } from "../../schema/Session.ts"
import { CallerKey } from "../../services/RequestCredentials.ts"
import { Sessions } from "../../services/Sessions.ts"
import { Api } from "../Api.ts"
import { login, logout, me, refresh } from "../api/Auth.ts"
import { RequestGuard, knownActor } from "./RequestGuard.ts"

const told = ({ actor }: Session) => knownActor(actor)

export const AuthLive = HttpApiBuilder.group(Api, "auth", (handlers) =>
  Effect.gen(function* () {
    const sessions = yield* Sessions
    const { inPlane, authenticated } = yield* RequestGuard
    return handlers
      .handle("login", ({ payload }) =>
        Effect.flatMap(CallerKey, (key) =>
          inPlane(login, (plane) =>
            Effect.tap(sessions.login(plane, { slt: Redacted.make(payload.slt), key }), told)
          )
        )
      )
      .handle("refresh", ({ payload }) =>
        Effect.flatMap(CallerKey, (key) =>
          inPlane(refresh, (plane) =>
            Effect.tap(
              sessions.refresh(plane, { refreshToken: Redacted.make(payload.refresh_token), key }),
              told
            )
          )
        )
      )
      .handle("logout", ({ payload }) =>
        Effect.flatMap(CallerKey, (key) =>
          inPlane(logout, (plane) => sessions.logout(plane, { token: Redacted.make(payload.token), key }))
        )
      )
      .handle("me", () => authenticated(me, sessions.me))
  })
)
