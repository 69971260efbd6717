/** The server without sockets: order of checks, limits and envelope are the real ones, and a request costs no connection. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { application, makeListener } from "../../src/http/Server.ts"
import { inMemory, type SendFrom } from "./InMemory.ts"

export class InMemoryServer extends Context.Tag("test/InMemoryServer")<
  InMemoryServer,
  { readonly send: SendFrom }
>() {}

/** Needs what the HTTP server needs: use cases, settings and `Drain`. */
export const inMemoryServer = Layer.scoped(
  InMemoryServer,
  Effect.map(makeListener, (listener) => ({ send: inMemory(listener) }))
).pipe(Layer.provide(application))
