import type { IncomingMessage } from "node:http"
import { BlockList, isIP } from "node:net"
import { isLoopback } from "../../services/Loopback.ts"

const familyOf = (address: string): "ipv4" | "ipv6" => (isIP(address) === 6 ? "ipv6" : "ipv4")

/** IPv4 inside IPv6 is IPv4; zones, brackets and ports are no part of an address. */
const plain = (address: string): string => {
  const bare = address.trim().replace(/^\[([^\]]*)\](?::\d+)?$/, "$1")
  const unported = /^\d+\.\d+\.\d+\.\d+:\d+$/.test(bare) ? bare.slice(0, bare.lastIndexOf(":")) : bare
  return unported.replace(/%.*$/, "").replace(/^::ffff:(?=\d+\.)/i, "")
}

const blockList = (proxies: ReadonlyArray<string>): BlockList => {
  const list = new BlockList()
  for (const proxy of proxies) {
    const [address = "", prefix] = proxy.split("/")
    if (isIP(address) === 0) continue
    if (prefix === undefined) list.addAddress(address, familyOf(address))
    else list.addSubnet(address, Number(prefix), familyOf(address))
  }
  return list
}

/** A proxy on this machine handed the request on, and is not trusted: whoever it speaks for is taken for the proxy. */
export const strangeProxyFor = (trustedProxies: ReadonlyArray<string>) => {
  const proxies = blockList(trustedProxies)
  return ({ headers, socket }: IncomingMessage): boolean => {
    if (headers["x-forwarded-for"] === undefined && headers.forwarded === undefined) return false
    const peer = plain(socket.remoteAddress ?? "")
    return isLoopback(peer) && !proxies.check(peer, familyOf(peer))
  }
}

/**
 * Who sent the request: the peer, or, behind trusted proxies, the rightmost address in `X-Forwarded-For` that is none
 * of them. What stands further left was written by the caller and is never believed.
 */
export const clientAddressFor = (trustedProxies: ReadonlyArray<string>) => {
  const proxies = blockList(trustedProxies)
  const isTrusted = (address: string) => isIP(address) !== 0 && proxies.check(address, familyOf(address))
  return (message: IncomingMessage): string => {
    let address = plain(message.socket.remoteAddress ?? "")
    if (trustedProxies.length === 0) return address
    const forwarded = String(message.headers["x-forwarded-for"] ?? "").split(",")
    for (let at = forwarded.length - 1; at >= 0 && isTrusted(address); at -= 1) {
      const next = plain(forwarded[at] ?? "")
      if (isIP(next) === 0) break
      address = next
    }
    return address
  }
}

/** An IPv6 customer has a whole /64: counting single addresses would count nobody. */
export const networkOf = (address: string): string => {
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
