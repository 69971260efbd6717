/** The socket of the console. It listens before the service starts, because the service sends its spans there, and ends after it. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import * as Effect from "effect/Effect"
import * as FiberSet from "effect/FiberSet"
import type * as Scope from "effect/Scope"

export type Handler = (request: IncomingMessage, response: ServerResponse) => Effect.Effect<void>

export interface LoopbackServer {
  /** Without a trailing slash. */
  readonly url: string
  /** Answers all requests from now on. */
  readonly answerWith: (handler: Handler) => void
}

const usualPort = 8788
const host = "127.0.0.1"

const unready: Handler = (_, response) =>
  Effect.sync(() => response.writeHead(503, { "retry-after": "1" }).end())

/** On the usual port, or on any free one. Connections end with the scope. */
export const listenOnLoopback: Effect.Effect<LoopbackServer, never, Scope.Scope> = Effect.gen(function* () {
  let handler = unready
  const run = yield* FiberSet.makeRuntime<never>()
  const server = yield* Effect.acquireRelease(
    Effect.sync(() =>
      createServer((request, response) => {
        run(handler(request, response))
      })
    ),
    (opened) =>
      Effect.async<void>((resume) => {
        opened.close(() => resume(Effect.void))
        opened.closeAllConnections()
      })
  )
  const listenOn = (port: number) =>
    Effect.async<number, Error>((resume) => {
      server.once("error", (error) => resume(Effect.fail(error)))
      server.listen(port, host, () => {
        server.removeAllListeners("error")
        // A listener on a port of this machine has an address of this form.
        resume(Effect.succeed((server.address() as AddressInfo).port))
      })
    })
  const port = yield* listenOn(usualPort).pipe(
    Effect.orElse(() => listenOn(0)),
    Effect.orDie
  )
  return {
    url: `http://${host}:${port}`,
    answerWith: (next) => {
      handler = next
    }
  }
})
