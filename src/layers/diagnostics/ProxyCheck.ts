/** Checks whether clients behind a proxy are distinguished. Only the operator knows whether there is a proxy. */
import { isLoopback } from "../../services/Loopback.ts"
import type { SettingsValues } from "../../services/Settings.ts"
import { type Finding, pass, warn } from "./Finding.ts"

/** A server that listens on loopback only is reached through a proxy, or from this machine. */
export const checkProxy = ({
  bind,
  rateLimit,
  trustedProxies
}: Pick<SettingsValues, "bind" | "rateLimit" | "trustedProxies">): Finding => {
  if (!rateLimit) return pass("proxy", "rate limits are off, so client addresses are not used")
  if (trustedProxies.length > 0) return pass("proxy", "clients are distinguished behind the trusted proxies")
  return isLoopback(bind.host)
    ? warn(
        "proxy",
        "MUSIC_BIND is a loopback address, and no proxy is trusted: behind a proxy all clients share one limit",
        "behind a proxy set MUSIC_TRUSTED_PROXIES to its address, such as 127.0.0.1; without a proxy ignore this warning"
      )
    : pass("proxy", "each connecting address has its own limits; behind a proxy set MUSIC_TRUSTED_PROXIES")
}
