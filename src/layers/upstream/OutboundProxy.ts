/**
 * Calls to other systems through a proxy (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`): each connection is a tunnel (CONNECT), so that
 * TLS stays between this process and the other system.
 */
import { request as httpRequest } from "node:http"
import { request as httpsRequest } from "node:https"
import { BlockList, isIP, type Socket } from "node:net"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { errorCode } from "../../services/ErrorCode.ts"
import { isLoopback } from "../../services/Loopback.ts"
import { Settings, type SettingsValues } from "../../services/Settings.ts"

export type OutboundProxySettings = SettingsValues["outboundProxy"]

/** What connections to other systems go through; without a layer for it, nothing. */
export class OutboundProxy extends Context.Reference<OutboundProxy>()("music/upstream/OutboundProxy", {
  defaultValue: (): OutboundProxySettings => ({ http: Option.none(), https: Option.none(), except: [] })
}) {}

/** The address without its credentials. */
export const proxyName = (address: Redacted.Redacted): string => new URL(Redacted.value(address)).origin

/** Both proxies in one line for operators; none when no proxy is set. */
export const describeProxy = ({
  except,
  http,
  https
}: OutboundProxySettings): Option.Option<{
  readonly https: string
  readonly http: string
  readonly except: string
}> =>
  Option.isNone(http) && Option.isNone(https)
    ? Option.none()
    : Option.some({
        https: Option.match(https, { onNone: () => "none", onSome: proxyName }),
        http: Option.match(http, { onNone: () => "none", onSome: proxyName }),
        except: ["this machine", ...except].join(", ")
      })

/** The proxy of the settings; the log names it once. */
export const OutboundProxyFromSettings: Layer.Layer<never, never, Settings> = Layer.unwrapEffect(
  Effect.gen(function* () {
    const { outboundProxy } = yield* Settings
    yield* Effect.transposeMapOption(describeProxy(outboundProxy), (facts) =>
      Effect.logInfo("Calls to other systems go through a proxy", facts)
    )
    return Layer.succeed(OutboundProxy, outboundProxy)
  })
)

interface Target {
  readonly protocol: string
  /** IPv6 with or without brackets. */
  readonly hostname: string
  readonly port: string
}

const addressOf = (hostname: string): string => hostname.replace(/^\[|\]$/g, "")

const familyOf = (address: string): "ipv4" | "ipv6" => (isIP(address) === 4 ? "ipv4" : "ipv6")

const isInNetwork = (hostname: string, entry: string): boolean => {
  const [given = "", bits] = entry.split("/")
  const network = addressOf(given)
  const address = addressOf(hostname)
  if (isIP(address) === 0 || isIP(network) === 0) return false
  const list = new BlockList()
  if (bits === undefined) list.addAddress(network, familyOf(network))
  else if (/^\d{1,3}$/.test(bits) && Number(bits) <= (isIP(network) === 4 ? 32 : 128))
    list.addSubnet(network, Number(bits), familyOf(network))
  return list.check(address, familyOf(address))
}

/** A name with its subdomains, an address, a network, or `*`; the first two with a port or without. */
const isExcepted = ({ hostname, port }: Target, entry: string): boolean => {
  if (entry === "*" || isInNetwork(hostname, entry)) return true
  const [, given = "", ofPort] = /^(.+?)(?::(\d+))?$/.exec(entry.toLowerCase()) ?? []
  const name = given.replace(/^\*?\./, "")
  if (ofPort !== undefined && ofPort !== port) return false
  const host = hostname.toLowerCase()
  return addressOf(host) === addressOf(name) || host.endsWith(`.${name}`)
}

/** The proxy for a connection, if any. This machine is reached without one. */
export const proxyFor = (
  { except, http, https }: OutboundProxySettings,
  target: Target
): Option.Option<Redacted.Redacted> =>
  isLoopback(target.hostname) || except.some((entry) => isExcepted(target, entry))
    ? Option.none()
    : target.protocol === "https:"
      ? https
      : http

/** The proxy gave no tunnel. The code begins with `PROXY_`, and ends with its status or with the error of the connection to it. */
const refusal = (reason: string | number) =>
  Object.assign(new Error("The proxy gave no connection"), { code: `PROXY_${reason}` })

/** Opens a tunnel within `timeout` milliseconds. No byte of a request is sent before `done` has its socket. */
export const openTunnel = (
  proxy: Redacted.Redacted,
  { hostname, port }: Pick<Target, "hostname" | "port">,
  timeout: number,
  done: (outcome: Either.Either<Socket, Error>) => void
): void => {
  const { hostname: host, password, port: proxyPort, protocol, username } = new URL(Redacted.value(proxy))
  const target = `${isIP(hostname) === 6 ? `[${hostname}]` : hostname}:${port}`
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  const open = (protocol === "https:" ? httpsRequest : httpRequest)({
    host: addressOf(host),
    // Otherwise Node takes the name of the header `host`, which is the target's.
    servername: isIP(addressOf(host)) === 0 ? host : "",
    port: proxyPort === "" ? (protocol === "https:" ? 443 : 80) : Number(proxyPort),
    method: "CONNECT",
    path: target,
    agent: false,
    headers: {
      host: target,
      ...(username === ""
        ? {}
        : { "proxy-authorization": `Basic ${Buffer.from(credentials).toString("base64")}` })
    }
  })
  const timer = setTimeout(() => open.destroy(Object.assign(new Error("late"), { code: "TIMEOUT" })), timeout)
  let settled = false
  const settle = (outcome: Either.Either<Socket, Error>): void => {
    clearTimeout(timer)
    if (!settled) done(outcome)
    settled = true
  }
  open.on("connect", ({ statusCode = 0 }, socket, head) => {
    // Without a listener, an error before TLS or the pool listens would end the process.
    socket.on("error", () => undefined)
    if (statusCode < 200 || statusCode > 299) {
      socket.destroy()
      return settle(Either.left(refusal(statusCode)))
    }
    if (head.length > 0) socket.unshift(head)
    settle(Either.right(socket))
  })
  open.on("error", (error) => settle(Either.left(refusal(errorCode(error)))))
  open.end()
}
