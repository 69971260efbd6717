import type { IncomingMessage } from "node:http"
import { BlockList, isIP, type Socket } from "node:net"
import { isLoopback } from "../../services/Addresses.ts"

const familyOf = (address: string): "ipv4" | "ipv6" => (isIP(address) === 6 ? "ipv6" : "ipv4")

/** Removes zone, brackets and port; an IPv4 address inside IPv6 becomes IPv4. */
const normalize = (address: string): string => {
  const bare = address.trim().replace(/^\[([^\]]*)\](?::\d+)?$/, "$1")
  const unported = /^\d+\.\d+\.\d+\.\d+:\d+$/.test(bare) ? bare.slice(0, bare.lastIndexOf(":")) : bare
  return unported.replace(/%.*$/, "").replace(/^::ffff:(?=\d+\.)/i, "")
}

/**
 * Of a connection that was reset before it was read from: the system does not name the other end any more. One for all of them, because an
 * empty one is not counted.
 */
const unknownAddress = "unknown"

/** The address of the other end of a connection. */
export const peerAddress = ({ remoteAddress = unknownAddress }: Pick<Socket, "remoteAddress">): string =>
  normalize(remoteAddress)

const trustIn = (proxies: ReadonlyArray<string>): ((address: string) => boolean) => {
  const list = new BlockList()
  for (const proxy of proxies) {
    const [address = "", prefix = isIP(address) === 6 ? "128" : "32"] = proxy.split("/")
    if (isIP(address) !== 0) list.addSubnet(address, Number(prefix), familyOf(address))
  }
  return (address) => isIP(address) !== 0 && list.check(address, familyOf(address))
}

/** Detects a request that a proxy on this machine forwarded without being trusted: all its clients then count as one. */
export const untrustedProxyDetector = (trustedProxies: ReadonlyArray<string>) => {
  const isTrusted = trustIn(trustedProxies)
  return ({ headers, socket }: IncomingMessage): boolean => {
    if (headers["x-forwarded-for"] === undefined && headers.forwarded === undefined) return false
    const peer = peerAddress(socket)
    return isLoopback(peer) && !isTrusted(peer)
  }
}

/**
 * Finds the client's address: the peer, or, behind trusted proxies, the rightmost address in `X-Forwarded-For` that is
 * none of them. Addresses further left are the caller's own text and are never believed.
 */
export const clientAddressResolver = (trustedProxies: ReadonlyArray<string>) => {
  const isTrusted = trustIn(trustedProxies)
  return (message: IncomingMessage): string => {
    let address = peerAddress(message.socket)
    if (trustedProxies.length === 0) return address
    const forwarded = String(message.headers["x-forwarded-for"] ?? "").split(",")
    for (let at = forwarded.length - 1; at >= 0 && isTrusted(address); at -= 1) {
      const next = normalize(forwarded[at] ?? "")
      if (isIP(next) === 0) break
      address = next
    }
    return address
  }
}

/** The network that quotas count: an IPv4 address, or a /64 of IPv6, because one IPv6 customer has a whole /64. */
export const toNetwork = (address: string): string => {
  if (isIP(address) !== 6) return address
  const [head = "", tail] = address.split("::")
  const left = head === "" ? [] : head.split(":")
  const right = tail === undefined || tail === "" ? [] : tail.split(":")
  const zeros = tail === undefined ? [] : Array<string>(Math.max(0, 8 - left.length - right.length)).fill("0")
  return [...left, ...zeros, ...right]
    .slice(0, 4)
    .map((group) => group.toLowerCase().replace(/^0+(?=.)/, ""))
    .join(":")
}
