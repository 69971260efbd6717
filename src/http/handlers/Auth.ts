import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { CallerKey } from "../../services/Caller.ts"
import { Sessions } from "../../services/Sessions.ts"
import { Api } from "../Api.ts"
import { login, logout, me, refresh } from "../api/Auth.ts"
import { Gate } from "./Gate.ts"

export const AuthLive = HttpApiBuilder.group(Api, "auth", (handlers) =>
  Effect.gen(function* () {
    const sessions = yield* Sessions
    const { inPlane, authenticated } = yield* Gate
    return handlers
      .handle("login", ({ payload }) =>
        Effect.flatMap(CallerKey, (key) =>
          inPlane(login, (plane) => sessions.login(plane, { slt: Redacted.make(payload.slt), key }))
        )
      )
      .handle("refresh", ({ payload }) =>
        Effect.flatMap(CallerKey, (key) =>
          inPlane(refresh, (plane) =>
            sessions.refresh(plane, { refreshToken: Redacted.make(payload.refresh_token), key })
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
