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
export const startSandboxWithConsole = ({ logLevel, port }: Pick<SandboxOptions, "port" | "logLevel">) =>
  Effect.gen(function* () {
    const after = (offset: number) => (port === 0 ? 0 : port + offset)
    const listener = yield* listenOnLoopback(after(1))
    const page = yield* Effect.promise(loadPage)
    const free = yield* unlessTaken(port)
    const sandbox = yield* startSandbox({ port: free, upstreamPort: after(2), logLevel, isShown: true })
    yield* openConsole(listener, sandbox, page)
    return { ...sandbox, consoleUrl: listener.url }
  })
