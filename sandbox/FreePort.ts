import { createServer, type AddressInfo } from "node:net"
import * as Effect from "effect/Effect"

/** A port of loopback that is free now. Another program may take it before it is used. */
export const findFreePort: Effect.Effect<number> = Effect.async((resume) => {
  const server = createServer()
  server.listen(0, "127.0.0.1", () => {
    // A listener on a port of this machine has an address of this form.
    const { port } = server.address() as AddressInfo
    server.close(() => resume(Effect.succeed(port)))
  })
})
