/**
 * A proxy between a client and the server that injects faults. The first part of a path names a lane: faults and counts
 * belong to one lane, so that many clients can be tested at once.
 */
import { once } from "node:events"
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { buffer } from "node:stream/consumers"
import { setTimeout as sleep } from "node:timers/promises"

/** `after`: the server has acted, only its answer is lost or replaced. */
export type FaultKind =
  | "cut-before"
  | "cut-after"
  | "cut-within"
  | "hang-after"
  | "delay"
  | "html-502-after"
  | "html-200-after"
  | "empty-200-after"
  | "redirect"

interface FaultRule {
  readonly lane: string
  readonly path: string
  readonly kind: FaultKind
  left: number
}

/** Milliseconds of a delayed request: longer than a test needs to do something meanwhile. */
const delay = 2_600

type Headers = NodeJS.Dict<string | ReadonlyArray<string>>

interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: Buffer
}

const html = (status: number, headers: Headers = {}): Answer => ({
  status,
  headers: { "content-type": "text/html", "access-control-allow-origin": "*", ...headers },
  body: Buffer.from(`<html><body>${status} from something in between</body></html>`)
})

/** The response that replaces the server's. A redirect leads to the same call on the lane `redirected`, where the server would answer it. */
const replacements: Readonly<Partial<Record<FaultKind, (path: string) => Answer>>> = {
  "html-502-after": () => html(502),
  "html-200-after": () => html(200),
  "empty-200-after": () => ({ ...html(200, { "content-type": "application/json" }), body: Buffer.alloc(0) }),
  redirect: (path) => html(307, { location: `/redirected${path}` })
}

const before: ReadonlySet<FaultKind | undefined> = new Set(["cut-before", "redirect"])

export const startFaultProxy = async (target: string) => {
  const agent = new Agent({ keepAlive: true })
  let rules: Array<FaultRule> = []
  const arrived: Array<{ lane: string; path: string; headers: Headers }> = []

  const forwarded = async (message: IncomingMessage, path: string, body: Buffer): Promise<Answer> => {
    const { connection: _connection, host: _host, ...headers } = message.headers
    const asked = request(new URL(path, target), { method: message.method ?? "GET", headers, agent })
    asked.end(body)
    const [answer] = (await once(asked, "response")) as [IncomingMessage]
    const { connection: _kept, "keep-alive": _alive, "transfer-encoding": _framing, ...kept } = answer.headers
    return { status: answer.statusCode ?? 0, headers: kept, body: await buffer(answer) }
  }

  const reply = (response: ServerResponse, { body, headers, status }: Answer) =>
    response.writeHead(status, { ...headers, "content-length": String(body.length) }).end(body)

  const take = (lane: string, path: string) => {
    const rule = rules.find((candidate) => candidate.lane === lane && candidate.path === path)
    if (rule !== undefined) rule.left -= 1
    rules = rules.filter(({ left }) => left > 0)
    return rule
  }

  const handle = async (message: IncomingMessage, response: ServerResponse) => {
    const [, lane = "", path = ""] = /^\/([^/]+)(\/.*)$/.exec(message.url ?? "") ?? []
    const body = await buffer(message)
    if (message.method === "OPTIONS") {
      reply(response, await forwarded(message, path, body))
      return
    }
    arrived.push({ lane, path, headers: message.headers })
    const rule = take(lane, path)
    const kind = rule?.kind
    if (kind === "delay") await sleep(delay)
    const answer = before.has(kind) ? html(500) : await forwarded(message, path, body)
    if (kind === "cut-within") {
      response.writeHead(answer.status, { ...answer.headers, "content-length": "5000" })
      response.write(answer.body.subarray(0, 20))
      await sleep(5)
    }
    if (kind?.startsWith("cut-") === true) message.socket.destroy()
    else if (kind !== "hang-after") reply(response, (kind && replacements[kind]?.(path)) ?? answer)
  }

  const server = createServer((message, response) => {
    handle(message, response).catch(() => message.socket.destroy())
  }).listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port } = server.address() as AddressInfo

  return {
    url: `http://127.0.0.1:${port}`,
    fault: (lane: string, kind: FaultKind, path: string, times = 1): void => {
      rules.push({ lane, kind, path, left: times })
    },
    clear: (lane: string): void => {
      rules = rules.filter((rule) => rule.lane !== lane)
    },
    /** The headers of the requests of a lane and path that arrived here, preflights left out. */
    seen: (lane: string, path: string): ReadonlyArray<Headers> =>
      arrived.filter((entry) => entry.lane === lane && entry.path === path).map(({ headers }) => headers),
    close: async () => {
      server.close()
      server.closeAllConnections()
      agent.destroy()
      if (server.listening) await once(server, "close")
    }
  }
}
