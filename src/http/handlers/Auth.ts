import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { Session } from "../../schema/Session.ts"
import { CallerKey } from "../../services/RequestCredentials.ts"
import { Sessions } from "../../services/Sessions.ts"
import { Api } from "../Api.ts"
import { login, logout, me, refresh } from "../api/Auth.ts"
import { RequestGuard, recordActor } from "../middleware/RequestGuard.ts"

const recordSessionActor = ({ actor }: Session) => recordActor(actor.type)

export const AuthLive = HttpApiBuilder.group(Api, "auth", (handlers) =>
  Effect.gen(function* () {
    const sessions = yield* Sessions
    const { serveInPlane, serveWithBearer } = yield* RequestGuard
    return handlers
      .handleRaw(
        "login",
        serveInPlane(login, (plane, { slt }) =>
          Effect.flatMap(CallerKey, (key) =>
            Effect.tap(sessions.login(plane, { slt: Redacted.make(slt), key }), recordSessionActor)
          )
        )
      )
      .handleRaw(
        "refresh",
        serveInPlane(refresh, (plane, { refresh_token }) =>
          Effect.flatMap(CallerKey, (key) =>
            Effect.tap(
              sessions.refresh(plane, { refreshToken: Redacted.make(refresh_token), key }),
              recordSessionActor
            )
          )
        )
      )
      .handleRaw(
        "logout",
        serveInPlane(logout, (plane, { token }) =>
          Effect.flatMap(CallerKey, (key) => sessions.logout(plane, { token: Redacted.make(token), key }))
        )
      )
      .handle("me", serveWithBearer(me, sessions.me))
  })
)
