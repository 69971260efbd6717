import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { Session } from "../../schema/Session.ts"
import { Sessions } from "../../services/Sessions.ts"
import { login, logout, me, refresh } from "../api/Auth.ts"
import { handle } from "./Handler.ts"

const actorOf = ({ actor }: Session) => actor.type

export const authHandlers = Effect.map(Sessions, (sessions) => ({
  login: handle(
    login,
    ({ key, payload, plane }) => sessions.login(plane, { slt: Redacted.make(payload.slt), key }),
    actorOf
  ),
  refresh: handle(
    refresh,
    ({ key, payload, plane }) =>
      sessions.refresh(plane, { refreshToken: Redacted.make(payload.refresh_token), key }),
    actorOf
  ),
  logout: handle(logout, ({ key, payload, plane }) =>
    sessions.logout(plane, { token: Redacted.make(payload.token), key })
  ),
  me: handle(me, ({ caller, plane }) => sessions.me(plane, caller))
}))
