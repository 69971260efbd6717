/** Calls of a sandbox as a client makes them. */
import { randomUUID } from "node:crypto"
import * as Effect from "effect/Effect"
import { call, expectJson, textOf } from "../../sandbox/HttpExchange.ts"
import { mintSlt, type SimulatedUpstreams } from "../../sandbox/SimulatedUpstreams.ts"

type Headers = Readonly<Record<string, string>>

export const keyed = (): Headers => ({ "idempotency-key": randomUUID() })

export const calls = ({ base, world }: { readonly base: string; readonly world: SimulatedUpstreams }) => {
  const post = (path: string, body: unknown, headers: Headers = {}) =>
    call(`${base}${path}`, { method: "POST", body, headers })
  const get = (path: string, headers: Headers = {}) => call(`${base}${path}`, { headers })
  const login = (headers: Headers = {}, slt = mintSlt(world)) =>
    Effect.gen(function* () {
      const session = yield* expectJson(
        yield* post("/api/v1/auth/login", { slt }, { ...keyed(), ...headers }),
        200
      )
      const accessToken = yield* textOf(session, "access_token")
      return {
        session,
        accessToken,
        refreshToken: yield* textOf(session, "refresh_token"),
        signed: { authorization: `Bearer ${accessToken}`, "x-org-id": "acme" }
      }
    })
  return { post, get, login }
}
