/**
 * The base of the four simulated upstreams: an HTTP server on loopback, a journal of requests and injected faults.
 * It does not import the backend; each simulator implements its contract from its own side.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"

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
  /** When the response was sent, or its connection was closed. */
  endedAt?: number
  /** The rule whose fault it met. */
  faultRule?: FaultRule
  /** Set while a fault withholds the response or its end. */
  held?: boolean
}

export interface Reply {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  /** An object is sent as JSON, text and bytes unchanged. */
  readonly body?: unknown
}

/**
 * A fault for matching requests. The `-after` kinds and those of the body let the simulator commit and then replace, change or lose the
 * response, which makes the outcome uncertain for the caller. `reply`, `drop` and `hang` never reach the simulator's logic.
 */
export type Fault =
  | { readonly kind: "reply"; readonly reply: Reply }
  | { readonly kind: "reply-after"; readonly reply: Reply }
  | { readonly kind: "drop" }
  | { readonly kind: "drop-after" }
  | { readonly kind: "hang" }
  | { readonly kind: "hang-after" }
  /** Sends the head and half of the body, then nothing, or drops the connection. */
  | { readonly kind: "hang-body" }
  | { readonly kind: "drop-body" }
  /** Sends the body a byte at a time, with this pause before each. */
  | { readonly kind: "drip"; readonly milliseconds: number }
  | { readonly kind: "alter"; readonly alter: (own: Reply) => Reply }
  | { readonly kind: "delay"; readonly milliseconds: number }

export interface FaultRule {
  /** Default: every method. */
  readonly method?: string
  /** Exact path or a pattern; default: every path. */
  readonly path?: string | RegExp
  /** Number of requests; default 1, `Infinity` for all until cleared. */
  readonly times?: number
  readonly fault: Fault
}

export interface ActiveFault {
  readonly rule: FaultRule
  /** Number of requests that it will still meet. */
  readonly left: number
}

/** Ready-made faults for any upstream. */
export const faults = {
  html: (status = 403): Fault => ({
    kind: "reply",
    reply: {
      status,
      headers: { "content-type": "text/html" },
      body: "<html><body>Request blocked</body></html>"
    }
  }),
  redirect: (location = "https://elsewhere.example/"): Fault => ({
    kind: "reply",
    reply: { status: 302, headers: { location } }
  }),
  notJson: (): Fault => ({
    kind: "reply",
    reply: { status: 200, headers: { "content-type": "application/json" }, body: "{not json" }
  }),
  oversized: (bytes: number): Fault => ({
    kind: "reply",
    reply: { status: 200, headers: { "content-type": "application/json" }, body: `"${"x".repeat(bytes)}"` }
  }),
  status: (status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): Fault => ({
    kind: "reply",
    reply: { status, headers, body }
  }),
  delay: (milliseconds: number): Fault => ({ kind: "delay", milliseconds }),
  drip: (milliseconds = 1_000): Fault => ({ kind: "drip", milliseconds })
} as const

export type Handle = (request: Seen) => Reply | Promise<Reply>

export interface Simulator {
  /** `http://127.0.0.1:<port>`, no trailing slash. */
  readonly url: string
  readonly port: number
  /** All received requests, oldest first, without control routes (`/_sandbox/…`). */
  readonly seen: Array<Seen>
  readonly fail: (rule: FaultRule) => void
  readonly clearFaults: () => void
  /** The rules that still wait for requests, oldest first. */
  readonly activeFaults: () => ReadonlyArray<ActiveFault>
  readonly removeFault: (rule: FaultRule) => void
  /** Calls the listener when a request has arrived, and again when it has ended. */
  readonly watch: (listener: (request: Seen) => void) => void
  readonly close: () => Promise<void>
}

/** Milliseconds since the epoch. Injected, so that the simulators and the server share one clock. */
export type Now = () => number

/** The headers that an upstream puts on every response, such as request ids and versions. */
export type Decorate = (request: Seen) => Readonly<Record<string, string>>

const controlPrefix = "/_sandbox/"

/** The error of a control route. The contracts' own routes have their own envelopes. */
export const controlRefusal = (message: string): Reply => ({
  status: 400,
  body: { error: { code: "invalid_control", message } }
})

const loopbackHost = /^(?:127\.0\.0\.1|localhost)(?::\d+)?$/

/** A control request of a web page, also of one that reached this machine by a name of its own (DNS rebinding). */
const isForeign = ({ headers }: Seen): boolean =>
  headers.has("origin") || !loopbackHost.test(headers.get("host")?.[0] ?? "")

const foreignRefusal: Reply = {
  status: 403,
  body: { error: { code: "foreign_control", message: "web pages may not use the control routes" } }
}

/** Largest request body, bytes; above every contract's limit, so that each simulator answers its own 413. */
const readLimit = 16 * 1024 * 1024

const readBody = (request: IncomingMessage): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    const chunks: Array<Buffer> = []
    let size = 0
    request.on("data", (chunk: Buffer) => {
      size += chunk.length
      if (size > readLimit) request.destroy()
      else chunks.push(chunk)
    })
    request.on("end", () => resolve(Buffer.concat(chunks)))
    request.on("error", reject)
    request.on("close", () => reject(new Error("closed")))
  })

const collectHeaders = (raw: ReadonlyArray<string>): ReadonlyMap<string, ReadonlyArray<string>> => {
  const headers = new Map<string, Array<string>>()
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = (raw[index] ?? "").toLowerCase()
    const values = headers.get(name)
    if (values === undefined) headers.set(name, [raw[index + 1] ?? ""])
    else values.push(raw[index + 1] ?? "")
  }
  return headers
}

/** A reply as it is sent. `extra` holds the headers that the reply itself may replace. */
export const encodeReply = (
  reply: Reply,
  extra: Readonly<Record<string, string>>
): { readonly headers: Readonly<Record<string, string>>; readonly body: Buffer } => {
  const { body } = reply
  const json = body !== undefined && typeof body !== "string" && !Buffer.isBuffer(body)
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(json ? JSON.stringify(body) : (body ?? ""))
  return {
    headers: {
      ...(json ? { "content-type": "application/json" } : {}),
      ...extra,
      ...reply.headers,
      "content-length": String(bytes.length)
    },
    body: bytes
  }
}

const send = (response: ServerResponse, reply: Reply, extra: Readonly<Record<string, string>>): void => {
  const { body, headers } = encodeReply(reply, extra)
  response.writeHead(reply.status, headers)
  response.end(body)
}

/** Starts a simulator on loopback. `handle` answers the contract's routes and the control routes below `/_sandbox/`. */
export const startSimulator = async (options: {
  readonly now: Now
  readonly handle: Handle
  readonly decorate?: Decorate
}): Promise<Simulator> => {
  const seen: Array<Seen> = []
  let rules: Array<{ rule: FaultRule; left: number }> = []
  const timers = new Set<NodeJS.Timeout>()
  const listeners: Array<(request: Seen) => void> = []

  const tell = (request: Seen): void => {
    for (const listener of listeners) listener(request)
  }

  const takeFault = (request: Seen): Fault | undefined => {
    const found = rules.find(
      ({ rule }) =>
        (rule.method === undefined || rule.method === request.method) &&
        (rule.path === undefined ||
          (typeof rule.path === "string" ? rule.path === request.path : rule.path.test(request.path)))
    )
    if (found === undefined) return undefined
    found.left -= 1
    if (found.left <= 0) rules = rules.filter((entry) => entry !== found)
    request.faultRule = found.rule
    return found.rule.fault
  }

  const pause = (milliseconds: number) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(() => {
        timers.delete(timer)
        resolve()
      }, milliseconds)
      timers.add(timer)
    })

  const answer = async (message: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await readBody(message)
    const url = new URL(message.url ?? "/", "http://simulator")
    const request: Seen = {
      at: options.now(),
      method: message.method ?? "GET",
      path: url.pathname,
      query: url.searchParams,
      headers: collectHeaders(message.rawHeaders),
      body,
      status: undefined
    }
    const control = request.path.startsWith(controlPrefix)
    if (control && isForeign(request)) return send(response, foreignRefusal, {})
    const fault = control ? undefined : takeFault(request)
    if (!control) {
      seen.push(request)
      tell(request)
      response.once("close", () => {
        request.endedAt = options.now()
        tell(request)
      })
    }
    const extra = {
      date: new Date(options.now()).toUTCString(),
      ...(options.decorate?.(request) ?? {})
    }
    const reply = (value: Reply) => {
      request.status = value.status
      send(response, value, extra)
    }
    /** Sends the head of the reply and returns its body. Of an empty body it announces a byte, so that the response has not ended. */
    const begin = (value: Reply): Buffer => {
      const { body, headers } = encodeReply(value, extra)
      response.writeHead(value.status, { ...headers, "content-length": String(Math.max(1, body.length)) })
      response.flushHeaders()
      return body
    }
    const sendHalf = (value: Reply): Promise<void> => {
      const bytes = begin(value)
      return new Promise((sent) => {
        response.write(bytes.subarray(0, Math.floor(bytes.length / 2)), () => sent())
      })
    }
    const drip = async (value: Reply, milliseconds: number): Promise<void> => {
      const bytes = begin(value)
      for (let at = 0; at < bytes.length && !message.socket.destroyed; at += 1) {
        await pause(milliseconds)
        response.write(bytes.subarray(at, at + 1))
      }
      if (bytes.length > 0) response.end()
    }
    switch (fault?.kind) {
      case "reply":
        return reply(fault.reply)
      case "drop":
        message.socket.destroy()
        return
      case "hang":
        request.held = true
        return
      case "delay":
        await pause(fault.milliseconds)
        break
      default:
        break
    }
    const own = await options.handle(request)
    switch (fault?.kind) {
      case "reply-after":
        return reply(fault.reply)
      case "drop-after":
        message.socket.destroy()
        return
      case "hang-after":
        request.held = true
        return
      case "hang-body":
        await sendHalf(own)
        request.held = true
        return
      case "drop-body":
        await sendHalf(own)
        message.socket.destroy()
        return
      case "drip":
        request.held = true
        return drip(own, fault.milliseconds)
      case "alter":
        return reply(fault.alter(own))
      default:
        return reply(own)
    }
  }

  const server: Server = createServer((message, response) => {
    answer(message, response).catch((error: unknown) => {
      if (message.destroyed && !response.headersSent) return
      if (!response.headersSent)
        send(response, { status: 500, body: { error: { code: "simulator", message: String(error) } } }, {})
    })
  })
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject)
    server.listen(0, "127.0.0.1", resolve)
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    seen,
    fail: (rule) => {
      rules.push({ rule, left: rule.times ?? 1 })
    },
    clearFaults: () => {
      rules = []
    },
    activeFaults: () => rules.map(({ left, rule }) => ({ rule, left })),
    removeFault: (rule) => {
      rules = rules.filter((entry) => entry.rule !== rule)
    },
    watch: (listener) => {
      listeners.push(listener)
    },
    close: () =>
      new Promise((resolve) => {
        for (const timer of timers) clearTimeout(timer)
        server.close(() => resolve())
        server.closeAllConnections()
      })
  }
}

/** The value of a header; `undefined` when it is absent or repeated. */
export const headerOf = (request: Seen, name: string): string | undefined => {
  const values = request.headers.get(name)
  return values?.length === 1 ? values[0] : undefined
}
