import { isIP } from "node:net"

/** Whether a host name or address is this machine; IPv6 with or without brackets. A name may begin with `127.` as well, so only addresses are matched by it. */
export const isLoopback = (host: string): boolean =>
  host === "localhost" || /^\[?::1\]?$/.test(host) || (isIP(host) === 4 && host.startsWith("127."))
