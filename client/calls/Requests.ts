/** Composes the request of a call. Plain functions. */
import type { MusicClientOptions } from "../Options.ts"
import type { WireRequest } from "../Transport.ts"
import type { ErrorOf } from "../Types.ts"
import { isRecord } from "../Values.ts"
import type { Endpoint } from "./Endpoints.ts"
import { invalidInput } from "../failures/Failures.ts"

/** This package's version; a test compares it with the manifest. */
export const packageVersion = "0.1.0"

/** One call, the same for all its attempts. */
export interface CallRequest<A> {
  /** The method of the client that calls. */
  readonly call: string
  readonly endpoint: Endpoint<A>
  /** Sent as JSON. */
  readonly payload?: unknown
  readonly idempotencyKey?: string
  /** The key was made for this call: the caller does not know it. */
  readonly isKeyRandom?: boolean
  /** Access token. */
  readonly bearer?: string
  /** Organisation. */
  readonly org?: string
  /** Further headers, with names in lower case; the client's own win. */
  readonly headers?: Readonly<Record<string, string>>
  /** The request may outlive its page. */
  readonly keepalive?: boolean
}

/** Headers that the client alone sets. `authorization` belongs to the caller of a raw call without a session. */
export const ownHeader =
  /^(?:idempotency-key|x-org-id|x-request-id|x-testing-environment-key|x-music-(?:client-version|source|telemetry))$/

/** Headers of a connection, which `fetch` sets or refuses. */
export const connectionHeader =
  /^(?:connection|content-length|expect|host|keep-alive|te|trailer|transfer-encoding|upgrade)$/

// A `Headers`, `Map` or `URLSearchParams` has no members: its content would be lost.
export const isPlain = (value: unknown): value is Readonly<Record<string, unknown>> =>
  isRecord(value) && !(Symbol.iterator in value)

/** The headers that the program's request hook adds, without those that are the client's. */
export const readHook = async (
  options: MusicClientOptions,
  address: string,
  { call, endpoint }: CallRequest<unknown>
): Promise<{ readonly headers: Readonly<Record<string, string>> } | ErrorOf<"invalid_input">> => {
  const { onRequest } = options
  if (typeof onRequest !== "function") return { headers: {} }
  try {
    const given: unknown = await onRequest({
      call,
      method: endpoint.method,
      url: `${address}${endpoint.path}`
    })
    if (given !== undefined && given !== null && !isPlain(given))
      return invalidInput("onRequest", "must return a plain object")
    const added = Object.entries(given ?? {}).map(([name, value]) => [name.toLowerCase(), value] as const)
    const isFree = (name: string) =>
      name !== "authorization" && !ownHeader.test(name) && !connectionHeader.test(name)
    const headers = Object.fromEntries(added.filter(([name]) => isFree(name)))
    // The composing of the request refuses a value that is no text.
    return { headers: headers as Record<string, string> }
  } catch {
    return invalidInput("onRequest", "must not fail")
  }
}

/** The option or parameter behind a header. */
const sources: ReadonlyMap<string, string> = new Map([
  ["x-org-id", "org"],
  ["idempotency-key", "idempotencyKey"],
  ["x-music-client-version", "version"],
  ["authorization", "sessionStore"]
])

/** The address of the service, in front of the path of each call, without a slash at its end. */
export const addressOf = (baseUrl: string): string => new URL(baseUrl).href.replace(/\/+$/, "")

const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
// Bytes other than control characters (RFC 9110, section 5.5).
const headerValue = /^[\t\x20-\x7e\x80-\xff]*$/

const findHeaderProblem = (
  headers: Readonly<Record<string, string>>
): ErrorOf<"invalid_input"> | undefined => {
  for (const [name, value] of Object.entries(headers)) {
    // An unset variable of the program; the service would read an empty header as none.
    if (value === "" && sources.has(name)) return invalidInput(sources.get(name) ?? name, "must not be empty")
    // Programs without a type checker may pass any value.
    const isSendable = headerName.test(name) && typeof value === "string" && headerValue.test(value)
    if (!isSendable) return invalidInput(sources.get(name) ?? `headers.${name}`, "cannot be sent in a header")
  }
  return undefined
}

/** The text of a payload; a failure when it is not JSON. `path` names it for the caller. */
const toText = (payload: unknown, path: string): string | ErrorOf<"invalid_input"> | undefined => {
  if (payload === undefined) return undefined
  // A cycle, a BigInt or a `toJSON` of the caller can throw.
  try {
    return JSON.stringify(payload) ?? invalidInput(path, "must be JSON")
  } catch {
    return invalidInput(path, "must be JSON: without cycles and without BigInt")
  }
}

/** The request of a call, or the failure of what the caller gave. */
export const composeRequest = <A>(
  options: MusicClientOptions,
  address: string,
  requestId: string,
  call: CallRequest<A>,
  more: Readonly<Record<string, string>> = {}
): WireRequest | ErrorOf<"invalid_input"> => {
  const { bearer, endpoint, idempotencyKey, org, payload } = call
  const body = toText(payload, call.call === "request" ? "body" : call.call)
  if (typeof body === "object") return body
  const headers = {
    ...more,
    accept: "application/json",
    ...(body === undefined ? {} : { "content-type": "application/json" }),
    ...call.headers,
    "x-music-source": options.source,
    "x-music-client-version": options.version ?? packageVersion,
    "x-music-telemetry": options.telemetry ? "on" : "off",
    "x-request-id": requestId,
    ...(typeof options.testingKey === "string" ? { "x-testing-environment-key": options.testingKey } : {}),
    ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }),
    ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey }),
    ...(org === undefined ? {} : { "x-org-id": org })
  }
  return (
    findHeaderProblem(headers) ?? {
      method: endpoint.method,
      baseUrl: address,
      url: `${address}${endpoint.path}`,
      headers,
      body,
      keepalive: call.keepalive === true
    }
  )
}
