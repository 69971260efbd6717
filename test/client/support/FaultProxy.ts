/**
 * A proxy between a client and the server that injects faults. The first part of a path names a lane: faults and counts
 * belong to one lane, so that many clients can be tested at once.
 */
import { once } from "node:events"
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import type { FaultKind, FaultRule } from "../suite/Bench.ts"

interface Answer {
  readonly status: number
  readonly headers: NodeJS.Dict<string | ReadonlyArray<string>>
  readonly body: Buffer
}

export interface FaultProxy {
  readonly url: string
  readonly fault: (rule: FaultRule) => void
  readonly clear: (lane: string) => void
  /** Requests of a lane and path that arrived here, preflights left out. */
  readonly seen: (lane: string, path: string) => ReadonlyArray<NodeJS.Dict<string | ReadonlyArray<string>>>
  readonly preflights: () => number
  readonly close: () => Promise<void>
}

const bodyOf = async (message: IncomingMessage): Promise<Buffer> => {
  const chunks: Array<Buffer> = []
  for await (const chunk of message) chunks.push(chunk)
  return Buffer.concat(chunks)
}

const html = (status: number): Answer => ({
  status,
  headers: { "content-type": "text/html", "access-control-allow-origin": "*" },
  body: Buffer.from(`<html><body>${status} from something in between</body></html>`)
})

/** The response that replaces the server's; undefined: the connection is cut. */
const replacements: Readonly<Partial<Record<FaultKind, Answer>>> = {
  "html-502": html(502),
  "html-502-after": html(502),
  "html-401": html(401),
  "html-200-after": html(200),
  "empty-200-after": {
    status: 200,
    headers: { "content-type": "application/json", "access-control-allow-origin": "*" },
    body: Buffer.alloc(0)
  }
}

/** Leads to the same call on the lane `redirected`, where the server would answer it. */
const redirect = (path: string): Answer => {
  const { headers, ...answer } = html(307)
  return { ...answer, headers: { ...headers, location: `/redirected${path}` } }
}

const before: ReadonlySet<FaultKind> = new Set(["cut-before", "html-502", "html-401", "redirect"])

export const startFaultProxy = async (target: string): Promise<FaultProxy> => {
  const agent = new Agent({ keepAlive: true })
  let rules: Array<FaultRule & { left: number }> = []
  const arrived: Array<{
    lane: string
    path: string
    headers: NodeJS.Dict<string | ReadonlyArray<string>>
  }> = []
  let preflights = 0

  const forwarded = async (message: IncomingMessage, path: string, body: Buffer): Promise<Answer> => {
    const { connection: _connection, host: _host, ...headers } = message.headers
    const asked = request(new URL(path, target), { method: message.method ?? "GET", headers, agent })
    asked.end(body)
    const [answer] = (await once(asked, "response")) as [IncomingMessage]
    const { connection: _kept, "keep-alive": _alive, "transfer-encoding": _framing, ...kept } = answer.headers
    return { status: answer.statusCode ?? 0, headers: kept, body: await bodyOf(answer) }
  }

  const reply = (response: ServerResponse, { body, headers, status }: Answer) => {
    response.writeHead(status, { ...headers, "content-length": String(body.length) })
    response.end(body)
  }

  const take = (lane: string, path: string) => {
    const rule = rules.find((candidate) => candidate.lane === lane && path.startsWith(candidate.path))
    if (rule === undefined) return undefined
    rule.left -= 1
    if (rule.left <= 0) rules = rules.filter((candidate) => candidate !== rule)
    return rule
  }

  const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds))

  const handle = async (message: IncomingMessage, response: ServerResponse) => {
    const [, lane = "", rest = ""] = /^\/([^/]+)(\/.*)$/.exec(message.url ?? "") ?? []
    const body = await bodyOf(message)
    if (message.method === "OPTIONS") {
      preflights += 1
      return reply(response, await forwarded(message, rest, body))
    }
    arrived.push({ lane, path: rest, headers: message.headers })
    const rule = take(lane, rest)
    if (rule?.kind === "delay") await pause(rule.milliseconds ?? 0)
    const answer =
      rule !== undefined && before.has(rule.kind) ? undefined : await forwarded(message, rest, body)
    switch (rule?.kind) {
      case "cut-before":
      case "cut-after":
        message.socket.destroy()
        return
      case "hang-after":
        return
      case "cut-within":
        response.writeHead(answer?.status ?? 200, { ...answer?.headers, "content-length": "5000" })
        response.write(answer?.body.subarray(0, 20))
        setTimeout(() => message.socket.destroy(), 5)
        return
      default: {
        const instead = rule?.kind === "redirect" ? redirect(rest) : rule && replacements[rule.kind]
        return reply(response, instead ?? answer ?? html(500))
      }
    }
  }

  const server = createServer((message, response) => {
    handle(message, response).catch(() => message.socket.destroy())
  }).listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port } = server.address() as AddressInfo

  return {
    url: `http://127.0.0.1:${port}`,
    fault: (rule) => {
      rules.push({ ...rule, left: rule.times ?? 1 })
    },
    clear: (lane) => {
      rules = rules.filter((rule) => rule.lane !== lane)
    },
    seen: (lane, path) =>
      arrived.filter((entry) => entry.lane === lane && entry.path === path).map(({ headers }) => headers),
    preflights: () => preflights,
    close: async () => {
      server.close()
      server.closeAllConnections()
      agent.destroy()
      if (server.listening) await once(server, "close")
    }
  }
}
