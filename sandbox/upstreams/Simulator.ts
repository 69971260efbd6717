/** A simulated upstream on loopback: an HTTP server with a journal of its requests and injected faults. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { type Contract, encodeReply, makeRoutes, type Now, type Reply, type Seen } from "./Contract.ts"

export { encodeReply, type Handle, headerOf, type Now, type Reply, type Seen } from "./Contract.ts"

/**
 * A fault for matching requests. The `-after` kinds and `alter` let the simulator commit and then replace, change or lose the response,
 * which makes the outcome uncertain for the caller. `reply`, `drop` and `hang` never reach the simulator's logic.
 */
export type Fault =
  | Replying
  | { readonly kind: "reply-after"; readonly reply: Reply }
  | { readonly kind: "drop" | "drop-after" | "hang" | "hang-after" }
  | { readonly kind: "alter"; readonly alter: (own: Reply) => Reply }
  | { readonly kind: "delay"; readonly milliseconds: number }

/** A reply in place of the upstream's own, which executes nothing. */
export interface Replying {
  readonly kind: "reply"
  readonly reply: Reply
}

export interface FaultRule {
  /** Default: every method. */
  readonly method?: string
  /** Exact path or a pattern; default: every path. */
  readonly path?: string | RegExp
  /** Number of requests; default 1, `Infinity` for all until cleared. */
  readonly times?: number
  readonly fault: Fault
}

const replying = (
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {}
): Replying => ({
  kind: "reply",
  reply: { status, headers, body }
})
const json = { "content-type": "application/json" }

/** Ready-made faults for any upstream. */
export const faults = {
  status: replying,
  html: (status = 403) =>
    replying(status, "<html><body>Request blocked</body></html>", { "content-type": "text/html" }),
  redirect: (location = "https://elsewhere.example/") => replying(302, undefined, { location }),
  notJson: () => replying(200, "{not json", json),
  oversized: (bytes: number) => replying(200, `"${"x".repeat(bytes)}"`, json)
} as const

/** A request as those who watch see it. */
export interface Watched extends Seen {
  /** When the response was sent, or its connection was closed. */
  endedAt?: number
  /** The rule whose fault it met. */
  faultRule?: FaultRule
}

export interface Simulator {
  /** `http://127.0.0.1:<port>`, no trailing slash. */
  readonly url: string
  /** The routes of its contract, as `METHOD /path/{variable}`. */
  readonly routes: ReadonlyArray<string>
  /** All received requests, oldest first, without control routes (`/_sandbox/…`). */
  readonly seen: Array<Watched>
  readonly fail: (rule: FaultRule) => void
  readonly clearFaults: () => void
  /** The rules that still wait for requests, oldest first, with the number of requests that each will still meet. */
  readonly activeFaults: () => ReadonlyArray<{ readonly rule: FaultRule; readonly left: number }>
  readonly removeFault: (rule: FaultRule) => void
  /** Calls the listener when a request has arrived, and again when it has ended. */
  readonly watch: (listener: (request: Watched) => void) => void
  readonly close: () => Promise<void>
}

/** Where a simulator listens. */
export interface Listening {
  /** Default: any free port. A port that is taken is replaced by a free one. */
  readonly port?: number | undefined
}

const controlPrefix = "/_sandbox/"

const controlError = (status: number, code: string, message: string): Reply => ({
  status,
  body: { error: { code, message } }
})

const loopbackHost = /^(?:127\.0\.0\.1|localhost)(?::\d+)?$/

/** A control request of a web page, also of one that reached this machine by a name of its own (DNS rebinding). */
const isForeign = ({ headers }: Seen): boolean =>
  headers.has("origin") || !loopbackHost.test(headers.get("host")?.[0] ?? "")

/** Largest request body, bytes; above every contract's limit, so that each simulator answers its own 413. */
const readLimit = 16 * 1024 * 1024

const readBody = async (request: IncomingMessage): Promise<Buffer> => {
  const chunks: Array<Buffer> = []
  let size = 0
  for await (const chunk of request) {
    size += chunk.length
    if (size > readLimit) request.destroy()
    else chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

const fits = ({ method, path }: FaultRule, request: Seen): boolean =>
  (method === undefined || method === request.method) &&
  (path === undefined || (typeof path === "string" ? path === request.path : path.test(request.path)))

const listen = (server: ReturnType<typeof createServer>, port: number): Promise<number> =>
  new Promise((resolve, reject) => {
    server.once("error", reject)
    server.listen(port, "127.0.0.1", () => {
      server.off("error", reject)
      // A listener on a port of this machine has an address of this form.
      resolve((server.address() as AddressInfo).port)
    })
  })

export const startSimulator = async (
  options: Listening & Contract & { readonly now: Now }
): Promise<Simulator> => {
  const { control = {}, decorate = () => ({}), handle, now, routes = [] } = options
  const findControl = makeRoutes(control)
  const seen: Array<Watched> = []
  let rules: Array<{ readonly rule: FaultRule; left: number }> = []
  const timers = new Set<NodeJS.Timeout>()
  const listeners: Array<(request: Watched) => void> = []
  const notify = (request: Watched): void => {
    for (const listener of listeners) listener(request)
  }

  const takeFault = (request: Watched): Fault | undefined => {
    const found = rules.find(({ rule }) => fits(rule, request))
    if (found === undefined) return undefined
    found.left -= 1
    rules = rules.filter(({ left }) => left > 0)
    request.faultRule = found.rule
    return found.rule.fault
  }

  const pause = (milliseconds: number) =>
    new Promise<void>((resolve) => {
      timers.add(setTimeout(resolve, milliseconds))
    })

  const answerControl = async (request: Seen): Promise<Reply> => {
    if (isForeign(request))
      return controlError(403, "foreign_control", "web pages may not use the control routes")
    try {
      const { run } = findControl(request)
      return (await run?.(request)) ?? controlError(400, "invalid_control", "no such control")
    } catch (error) {
      return controlError(400, "invalid_control", error instanceof Error ? error.message : String(error))
    }
  }

  const receive = async (message: IncomingMessage): Promise<Watched> => {
    const body = await readBody(message)
    const url = new URL(message.url ?? "/", "http://simulator")
    return {
      at: now(),
      method: message.method ?? "GET",
      path: url.pathname,
      query: url.searchParams,
      headers: new Map(Object.entries(message.headersDistinct).map(([name, values = []]) => [name, values])),
      body,
      status: undefined
    }
  }

  const answer = async (message: IncomingMessage, response: ServerResponse): Promise<void> => {
    const request = await receive(message)
    const send = (reply: Reply) => {
      request.status = reply.status
      const date = new Date(now()).toUTCString()
      const { body, headers } = encodeReply(reply, { date, ...decorate(request) })
      response.writeHead(reply.status, headers).end(body)
    }
    if (request.path.startsWith(controlPrefix)) return send(await answerControl(request))
    const fault = takeFault(request)
    seen.push(request)
    notify(request)
    response.once("close", () => {
      request.endedAt = now()
      notify(request)
    })
    if (fault?.kind === "delay") await pause(fault.milliseconds)
    const isBefore = fault?.kind === "reply" || fault?.kind === "drop" || fault?.kind === "hang"
    const own = isBefore ? { status: 0 } : await handle(request)
    switch (fault?.kind) {
      case "reply":
      case "reply-after":
        return send(fault.reply)
      case "drop":
      case "drop-after":
        message.socket.destroy()
        return
      case "hang":
      case "hang-after":
        return
      case "alter":
        return send(fault.alter(own))
      default:
        return send(own)
    }
  }

  const server = createServer((message, response) => {
    answer(message, response).catch((error: unknown) => {
      if (response.headersSent || message.socket.destroyed) return
      const { body, headers } = encodeReply(controlError(500, "simulator", String(error)), {})
      response.writeHead(500, headers).end(body)
    })
  })
  const { port: wanted = 0 } = options
  const port = await listen(server, wanted).catch(() => listen(server, 0))
  return {
    url: `http://127.0.0.1:${port}`,
    routes,
    seen,
    fail: (rule) => {
      rules.push({ rule, left: rule.times ?? 1 })
    },
    clearFaults: () => {
      rules = []
    },
    activeFaults: () => rules,
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
