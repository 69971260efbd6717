import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { Sessions } from "../../services/Sessions.ts"
import { Api } from "../Api.ts"
import { Calls, noteActor } from "../middleware/Calls.ts"
import { SentKey } from "./Middleware.ts"

export const AuthHandlers = HttpApiBuilder.group(Api, "auth", (handlers) =>
  Effect.gen(function* () {
    const { inPlane, signedIn } = yield* Calls
    const sessions = yield* Sessions
    return handlers
      .handle("login", ({ payload: { slt } }) =>
        inPlane((plane) =>
          Effect.flatMap(SentKey, (key) => sessions.login(plane, { slt: Redacted.make(slt), key }))
        ).pipe(Effect.tap(({ actor }) => noteActor(actor.type)))
      )
      .handle("refresh", ({ payload: { refresh_token } }) =>
        inPlane((plane) =>
          Effect.flatMap(SentKey, (key) =>
            sessions.refresh(plane, { refreshToken: Redacted.make(refresh_token), key })
          )
        ).pipe(Effect.tap(({ actor }) => noteActor(actor.type)))
      )
      .handle("logout", ({ payload: { token } }) =>
        inPlane((plane) =>
          Effect.flatMap(SentKey, (key) => sessions.logout(plane, { token: Redacted.make(token), key }))
        )
      )
      .handle("me", () => signedIn(sessions.me))
  })
)
