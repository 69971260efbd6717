/** Calls that this version does not know. Plain functions. */
import { isRecord } from "./Answers.ts"
import type { Endpoint } from "./Endpoints.ts"
import { invalidInput, type MusicFailure } from "./Failures.ts"
import type { RawAnswer } from "./Types.ts"

/** Methods that `fetch` sends; it refuses CONNECT, TRACE and TRACK. */
const methodPattern = /^(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)$/

const queryOf = (query: unknown): string => {
  if (!isRecord(query)) return ""
  const text = new URLSearchParams(
    Object.entries(query).map(([name, value]) => [name, String(value)] as [string, string])
  ).toString()
  return text === "" ? "" : `?${text}`
}

/** The endpoint of a raw call. A path that would leave the service's address is refused: the session goes with it. */
export const rawEndpoint = (
  baseUrl: string,
  method: unknown,
  path: unknown,
  query: unknown
): Endpoint<RawAnswer> | MusicFailure<"invalid_input"> => {
  const name = typeof method === "string" ? method.toUpperCase() : ""
  if (!methodPattern.test(name))
    return invalidInput("method", "must be GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS")
  if (typeof path !== "string" || !path.startsWith("/"))
    return invalidInput("path", "must begin with a slash")
  if (path.includes("#") || (path.includes("?") && isRecord(query)))
    return invalidInput("path", "must not have a fragment, nor a query beside `query`")
  const base = baseUrl.replace(/\/+$/, "")
  const address = `${base}${path}`
  // The options' own check refuses a base that is no URL.
  if (URL.canParse(base) && !(URL.canParse(address) && isBelow(new URL(address), new URL(base))))
    return invalidInput("path", "must stay below the service's address")
  return { method: name, path: `${path}${queryOf(query)}`, answer: "raw" }
}

const isBelow = (address: URL, base: URL): boolean =>
  address.origin === base.origin && address.pathname.startsWith(`${base.pathname.replace(/\/+$/, "")}/`)
