import { isIP } from "node:net"

/** This machine itself, as a name or an address; IPv6 in brackets or not. `127.` begins names of others, too. */
export const isLoopback = (host: string): boolean =>
  host === "localhost" || /^\[?::1\]?$/.test(host) || (isIP(host) === 4 && host.startsWith("127."))
