/** Calls that this version does not know. Plain functions. */
import type { ErrorOf, RawAnswer, RawRequest } from "../Types.ts"
import { copied, isGiven } from "../Values.ts"
import type { Endpoint } from "./Endpoints.ts"
import { connectionHeader, isPlain, ownHeader } from "./Requests.ts"
import { invalidInput } from "../failures/Failures.ts"

/** A raw call, checked. */
interface RawCall {
  readonly endpoint: Endpoint<RawAnswer>
  readonly session: NonNullable<RawRequest["session"]>
  readonly payload?: unknown
  readonly headers: Readonly<Record<string, string>>
  /** Of the caller; without one, a call that is no read gets a random key. */
  readonly idempotencyKey?: string
  /** GET or HEAD. */
  readonly isRead: boolean
}

type Refused = ErrorOf<"invalid_input">

/** Methods that `fetch` sends; it refuses CONNECT, TRACE and TRACK. */
const methodPattern = /^(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)$/

const queryOf = (query: unknown): string | Refused => {
  if (!isGiven(query)) return ""
  if (!isPlain(query)) return invalidInput("query", "must be a plain object")
  const pairs: Array<[string, string]> = []
  for (const [name, value] of Object.entries(query)) {
    if (!isGiven(value)) continue
    if (typeof value !== "string" && typeof value !== "number" && typeof value !== "boolean")
      return invalidInput(`query.${name}`, "must be a text, a number or a boolean")
    pairs.push([name, String(value)])
  }
  return pairs.length === 0 ? "" : `?${new URLSearchParams(pairs)}`
}

// Control characters would be removed silently, or break the lines of a log.
const unsendable = /[\p{Cc}\p{Surrogate}#]/u
/** A segment `..` whose dots or slashes are encoded, or with parameters: an intermediary may decode it, and leave them out. */
const climbing = /(?:^|[/\\])\.\.(?:[/\\;]|$)/

/** Decodes dots, slashes and percent signs until there are none. */
const decodePath = (path: string): string => {
  const decoded = path.replace(/%(25|2e|2f|5c)/gi, (_, code: string) =>
    String.fromCharCode(Number.parseInt(code, 16))
  )
  return decoded === path ? path : decodePath(decoded)
}

const isBelow = (address: URL, base: URL): boolean =>
  address.origin === base.origin && address.pathname.startsWith(`${base.pathname.replace(/\/+$/, "")}/`)

/** The path with its query; refused when it would leave the service's address, because the session goes with it. */
const pathOf = (address: string, path: unknown, query: unknown): string | Refused => {
  if (typeof path !== "string" || !path.startsWith("/"))
    return invalidInput("path", "must begin with a slash")
  if (unsendable.test(path)) return invalidInput("path", "must not have a fragment or control characters")
  if (path.includes("?") && isGiven(query))
    return invalidInput("path", "must not have a query beside `query`")
  const [name = ""] = path.split("?", 1)
  const url = `${address}${path}`
  if (climbing.test(decodePath(name)) || !URL.canParse(url) || !isBelow(new URL(url), new URL(address)))
    return invalidInput("path", "must stay below the service's address")
  const text = queryOf(query)
  return typeof text === "string" ? `${path}${text}` : text
}

const headersOf = (
  given: unknown,
  session: RawCall["session"]
): { readonly sent: Readonly<Record<string, string>>; readonly key: unknown } | Refused => {
  if (!isGiven(given)) return { sent: {}, key: undefined }
  if (!isPlain(given)) return invalidInput("headers", "must be a plain object")
  const named = Object.entries(given).map(([name, value]) => [name.toLowerCase(), value] as const)
  const wrong = named.find(([name]) => connectionHeader.test(name))
  if (wrong !== undefined) return invalidInput(`headers.${wrong[0]}`, "belongs to the connection")
  const sent = named.filter(
    ([name]) => !ownHeader.test(name) && (session === "none" || name !== "authorization")
  )
  const key = named.find(([name]) => name === "idempotency-key")?.[1]
  // The composing of the request refuses a value that is no text.
  return { sent: Object.fromEntries(sent) as Record<string, string>, key }
}

/** A form, a file, a map or a promise has no JSON of its own: its content would be lost. */
const isJsonLike = (body: unknown): boolean =>
  typeof body !== "object" ||
  body === null ||
  "toJSON" in body ||
  ["[object Object]", "[object Array]"].includes(Object.prototype.toString.call(body))

/** Checks a raw call. `address` is that of the service, without a slash at its end. Programs without a type checker may pass any value. */
export const checkRawCall = (
  address: string,
  method: unknown,
  path: unknown,
  given: RawRequest | undefined
): RawCall | Refused => {
  const name = typeof method === "string" ? method.toUpperCase() : ""
  if (!methodPattern.test(name))
    return invalidInput("method", "must be GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS")
  const isRead = name === "GET" || name === "HEAD"
  const { body, session = "optional" } = given ?? {}
  if (!["required", "optional", "none"].includes(session))
    return invalidInput("session", "must be required, optional or none")
  const whole = pathOf(address, path, given?.query)
  if (typeof whole !== "string") return whole
  const headers = headersOf(given?.headers, session)
  if ("code" in headers) return headers
  if (isRead && body !== undefined) return invalidInput("body", `must be absent from a ${name} request`)
  if (!isJsonLike(body)) return invalidInput("body", "must be a JSON value")
  const key = given?.idempotencyKey ?? headers.key
  return {
    endpoint: { method: name, path: whole, answer: "raw" },
    session,
    isRead,
    headers: headers.sent,
    ...(body === undefined ? {} : { payload: copied(body) }),
    // The composing of the request refuses a key that is no text.
    ...(isGiven(key) ? { idempotencyKey: key as string } : {})
  }
}
