/** Addresses of hosts and networks. */
import { isIP } from "node:net"

/** Whether a host name or address is this machine; IPv6 with or without brackets. A name may begin with `127.` as well, so only addresses are matched by it. */
export const isLoopback = (host: string): boolean =>
  host === "localhost" || /^\[?::1\]?$/.test(host) || (isIP(host) === 4 && host.startsWith("127."))

/** Host and port, as in a URL: IPv6 in brackets. */
export const formatAddress = (host: string, port: number): string =>
  `${host.includes(":") ? `[${host}]` : host}:${port}`

/** The site of a network: a /48 of IPv6, because one customer may have a whole /48 with its 65,536 networks; an IPv4 address itself. */
export const siteOf = (network: string): string =>
  network.includes(":") ? network.split(":", 3).join(":") : network
