/** The sandbox as a person uses it: with the console, and a documentation page with live values. */
import { createServer } from "node:net"
import * as Effect from "effect/Effect"
import { openConsole } from "./console/Console.ts"
import { listenOnLoopback } from "./console/Server.ts"
import { loadPage } from "./ConsolePage.ts"
import { type SandboxOptions, startSandbox } from "./Run.ts"

/** The port, or 0, which is any free one, while another program has it. */
const unlessTaken = (port: number): Effect.Effect<number> =>
  Effect.async((resume) => {
    const server = createServer()
    server.once("error", () => resume(Effect.succeed(0)))
    server.listen(port, "127.0.0.1", () => server.close(() => resume(Effect.succeed(port))))
  })

/**
 * `port` is the service's, and those of the console and of the upstreams follow it: each is the same at every start while it is free, and any
 * free one otherwise. With 0 all are free ones. All of it ends with the scope.
 */
export const startSandboxWithConsole = (
  options: Pick<SandboxOptions, "port" | "logLevel"> & {
    /** Replaces the console's socket, for tests that cut it. */
    readonly listen?: typeof listenOnLoopback
  }
) =>
  Effect.gen(function* () {
    const { listen = listenOnLoopback, logLevel } = options
    const after = (offset: number) => (options.port === 0 ? 0 : options.port + offset)
    const listener = yield* listen(after(1))
    const page = yield* Effect.promise(loadPage)
    const port = yield* unlessTaken(options.port)
    const sandbox = yield* startSandbox({ port, upstreamPort: after(2), logLevel, isShown: true })
    yield* openConsole(listener, sandbox, page)
    return { ...sandbox, consoleUrl: listener.url }
  })
