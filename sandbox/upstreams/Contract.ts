/**
 * The base of the simulated upstreams: a contract is a table of routes and a table of error codes, and its checks throw refusals.
 * It does not import the backend; each simulator implements its contract from its own side.
 */
import { createHash } from "node:crypto"

/** Milliseconds since the epoch. Injected, so that the simulators and the server share one clock. */
export type Now = () => number

type Headers = Readonly<Record<string, string>>

/** One received request. Header names are in lower case, values as they arrived. */
export interface Seen {
  readonly at: number
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: ReadonlyMap<string, ReadonlyArray<string>>
  readonly body: Buffer
  /** The status of the response; `undefined` before it and when the connection was dropped. */
  status: number | undefined
}

export interface Reply {
  readonly status: number
  readonly headers?: Headers
  /** An object is sent as JSON, text and bytes unchanged. */
  readonly body?: unknown
}

export type Handle = (request: Seen) => Reply | Promise<Reply>

/** What a simulator serves. */
export interface Contract {
  readonly handle: Handle
  /** The headers of every response, beside those of the reply. */
  readonly decorate?: (request: Seen) => Headers
  /** Routes below `/_sandbox/` for this machine's programs, such as curl. */
  readonly control?: Routes<Seen>
  /** The routes of its contract as `METHOD /path/{variable}`. */
  readonly routes?: ReadonlyArray<string>
}

/** The values of a header as they arrived; empty when it is absent. */
export const headerValues = (request: Seen, name: string): ReadonlyArray<string> =>
  request.headers.get(name) ?? []

/** The value of a header; `undefined` when it is absent or repeated. */
export const headerOf = (request: Seen, name: string): string | undefined => {
  const values = headerValues(request, name)
  return values.length === 1 ? values[0] : undefined
}

/** A reply as it is sent. `extra` holds the headers that the reply itself may replace. */
export const encodeReply = (
  { body, headers }: Reply,
  extra: Headers
): { readonly headers: Headers; readonly body: Buffer } => {
  const isJson = body !== undefined && typeof body !== "string" && !Buffer.isBuffer(body)
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(isJson ? JSON.stringify(body) : (body ?? ""))
  const type = isJson ? { "content-type": "application/json" } : {}
  return { headers: { ...type, ...extra, ...headers, "content-length": String(bytes.length) }, body: bytes }
}

/** An error answer. It is thrown before any state changes. */
export class Refusal extends Error {
  readonly reply: Reply
  constructor(reply: Reply) {
    super(String(reply.status))
    this.reply = reply
  }
}

/** A pattern of the paths of a template such as `/things/{id}`; each variable part is a group. */
export const patternOf = (template: string): RegExp =>
  new RegExp(`^${template.replaceAll(".", "\\.").replaceAll(/\{\w+\}/g, "([^/]+)")}$`)

const decoded = (segment: string): string => {
  try {
    return decodeURIComponent(segment)
  } catch {
    return ""
  }
}

/** Operations by `METHOD /path/{variable}`. The variable parts of the path are decoded. */
export type Routes<Call, Answer = Reply> = Readonly<
  Record<string, (call: Call, ...parts: ReadonlyArray<string>) => Answer>
>

/** The operation of a request, and the methods that its path has. */
export const makeRoutes = <Call, Answer = Reply>(routes: Routes<Call, Answer>) => {
  const known = Object.entries(routes).map(([name, run]) => {
    const [method = "", template = ""] = name.split(" ")
    return { method, pattern: patternOf(template), run }
  })
  return ({ method, path }: Pick<Seen, "method" | "path">) => {
    const fitting = known.filter(({ pattern }) => pattern.test(path))
    const found = fitting.find((route) => route.method === method)
    const parts = found?.pattern.exec(path)?.slice(1).map(decoded) ?? []
    return {
      run: found === undefined ? undefined : (call: Call) => found.run(call, ...parts),
      allowed: fitting.map((route) => route.method)
    }
  }
}

/** The reply of a refusal that was thrown; anything else is thrown again. */
const replyOf = (error: unknown): Reply => {
  if (error instanceof Refusal) return error.reply
  throw error
}

/**
 * A contract by its table of routes. `read` checks what comes before any route, and makes the call; a request without an operation goes to
 * `otherwise`, with the methods that its path has. All of them may throw a refusal.
 */
export const handleBy = <Call, Answer extends Reply | Promise<Reply> = Reply>(
  routes: Routes<Call, Answer>,
  read: (request: Seen) => Call,
  otherwise: (call: Call, allowed: ReadonlyArray<string>) => Reply
) => {
  const find = makeRoutes(routes)
  return (request: Seen): Answer | Reply => {
    try {
      const call = read(request)
      const { allowed, run } = find(request)
      return run === undefined ? otherwise(call, allowed) : run(call)
    } catch (error) {
      return replyOf(error)
    }
  }
}

/** The same for an operation that waits. */
export const settled =
  <Given extends ReadonlyArray<unknown>>(run: (...given: Given) => Promise<Reply>) =>
  (...given: Given): Promise<Reply> =>
    run(...given).catch(replyOf)

export type JsonObject = Readonly<Record<string, unknown>>

export const isRecord = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The value, or `undefined` when the bytes are not JSON in UTF-8. JSON itself never yields `undefined`. */
export const parseJson = (bytes: Uint8Array): unknown => {
  try {
    // A byte order mark stays in the text, where it is a syntax error.
    return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes))
  } catch {
    return undefined
  }
}

/** Compact text with sorted keys: equal content has equal text. */
export const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, inner: unknown) =>
    isRecord(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([left], [right]) => (left < right ? -1 : 1)))
      : inner
  )

export const sha256 = (value: string | Buffer): string => createHash("sha256").update(value).digest("hex")
