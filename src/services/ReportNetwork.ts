/** The network that anonymous reports count in: a /24 of IPv4, a /48 of IPv6. It is stored as a keyed digest only. */
import { createHmac } from "node:crypto"
import * as Redacted from "effect/Redacted"

const label = "music report network v1"

/**
 * Makes the digest of a client's address or /64 (`RequestContext`). The key comes from a secret of the server, so that a reader of the
 * database alone cannot try all addresses; instances with the same secret make the same digests.
 */
export const makeNetworkDigest = (secret: Redacted.Redacted): ((clientNetwork: string) => string) => {
  const key = createHmac("sha256", Redacted.value(secret)).update(label).digest()
  return (clientNetwork) => {
    const separator = clientNetwork.includes(":") ? ":" : "."
    const network = clientNetwork.split(separator).slice(0, 3).join(separator)
    return createHmac("sha256", key).update(network).digest("hex")
  }
}
