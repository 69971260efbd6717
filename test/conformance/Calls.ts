/** Calls of a sandbox as a client makes them. */
import { randomUUID } from "node:crypto"
import { connect } from "node:net"
import * as Effect from "effect/Effect"
import { call, type Exchange, expectJson, textOf } from "../../sandbox/HttpExchange.ts"
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

/** The error code of an answer; none for a success. */
export const codeOf = ({ text }: Exchange): string | undefined => /"code":"([a-z_]+)"/.exec(text)?.[1]

/** Sends raw bytes and returns the whole answer; the request must contain `Connection: close`. */
export const raw = (base: string, request: string): Effect.Effect<string> =>
  Effect.async((resume) => {
    const socket = connect(Number(new URL(base).port), "127.0.0.1")
    let answer = ""
    socket.on("data", (data) => {
      answer += data.toString("latin1")
    })
    socket.on("error", () => resume(Effect.succeed(answer)))
    socket.on("close", () => resume(Effect.succeed(answer)))
    socket.write(Buffer.from(request, "latin1"))
    return Effect.sync(() => socket.destroy())
  })
