/** Tries to listen on an address, and closes it again. */
import { createServer } from "node:net"
import * as Effect from "effect/Effect"
import { errorCode } from "../../services/ErrorCode.ts"
import { fail, type Finding } from "./Finding.ts"

export interface Address {
  readonly host: string
  readonly port: number
}

export const formatAddress = ({ host, port }: Address): string =>
  `${host.includes(":") ? `[${host}]` : host}:${port}`

/** The system's error code, or undefined when the address can be listened on. */
export const tryListening = ({ host, port }: Address): Effect.Effect<string | undefined> =>
  Effect.async((resume) => {
    const server = createServer((socket) => socket.destroy())
    const answer = (code: string | undefined) => resume(Effect.succeed(code))
    server.once("error", (error) => answer(errorCode(error)))
    server.listen({ host, port, exclusive: true }, () => server.close(() => answer(undefined)))
    return Effect.sync(() => server.close())
  })

/** Why `variable`, which holds this address, does not work. `name` is the finding's. */
export const listenFailure = (name: string, variable: string, address: Address, code: string): Finding => {
  switch (code) {
    case "EADDRINUSE":
      return fail(
        name,
        `another program listens at ${formatAddress(address)}`,
        `stop it, or set ${variable} to another port`
      )
    case "EADDRNOTAVAIL":
      return fail(
        name,
        `${address.host} is no address of this machine`,
        `set ${variable} to one of its addresses, such as 127.0.0.1:${address.port}`
      )
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return fail(
        name,
        `the host ${address.host} is not known`,
        `set ${variable} to an address of this machine`
      )
    case "EACCES":
      return fail(
        name,
        `this user may not listen on port ${address.port}`,
        `set ${variable} to a port from 1024 on, or give the program the right (CAP_NET_BIND_SERVICE)`
      )
    default:
      return fail(
        name,
        `cannot listen at ${formatAddress(address)} (${code})`,
        `set ${variable} to an address of this machine, such as 127.0.0.1:${address.port}`
      )
  }
}
