import * as Option from "effect/Option"
import type { SettingsValues } from "../../services/Settings.ts"
import type { Environment } from "../settings/Settings.ts"
import { describeProxy } from "../upstream/Connections.ts"
import { type Finding, pass, warn } from "./Finding.ts"

const name = "outbound proxy"

/** Names the proxies of calls to other systems; no finding where none is set. */
export const checkOutboundProxy = (
  { outboundProxy }: Pick<SettingsValues, "outboundProxy">,
  environment: Environment
): ReadonlyArray<Finding> => {
  const ignored = ["all_proxy", "ALL_PROXY"].find((variable) => (environment[variable] ?? "") !== "")
  return [
    ...Option.match(describeProxy(outboundProxy), {
      onNone: () => [],
      onSome: ({ except, http, https }) => [pass(name, `https: ${https}; http: ${http}; not for ${except}`)]
    }),
    ...(ignored === undefined
      ? []
      : [warn(name, `${ignored} has no effect`, "set HTTPS_PROXY to the proxy, or remove it")])
  ]
}
