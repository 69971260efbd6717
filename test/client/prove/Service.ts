/** A service of one session whose refresh tokens are spent once, as those of IAM: under another key a spent token ends the session. */
import { once } from "node:events"
import { createServer, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { text } from "node:stream/consumers"
import { examples } from "../../../src/http/openapi/Examples.ts"

/** What happens to one answer. The service has acted before, except after `before`. */
export interface Fault {
  /** Last part of the path. */
  readonly call: "refresh" | "me"
  readonly before?: true
  /** Ends the connection, or leaves it open for ever. */
  readonly instead?: "cut" | "hang"
  readonly status?: number
  readonly type?: string
  /** Replaces the body; gets the right one. */
  readonly body?: (right: string) => string
}

const session = {
  ...examples["auth.refresh"].response,
  actor: { type: "silicon", public_id: "si:deejay" },
  testing_environment_id: null
}

const refused = { error: { code: "unauthenticated", message: "m", hint: "h", retryable: false } }

export const startService = async (lane: string) => {
  /** Live and spent refresh tokens, with the key and the answer of their rotation. */
  const rotations = new Map<string, { readonly key: string; readonly pair: object } | undefined>()
  let generation = 0
  let access = ""
  let alive = true
  /** Seconds. */
  let life = 1_800
  let faults: ReadonlyArray<Fault> = []

  const tokens = () => {
    generation += 1
    access = `oat_${lane}_${generation}`
    rotations.set(`ort_${lane}_${generation}`, undefined)
    return { access_token: access, refresh_token: `ort_${lane}_${generation}`, expires_in: life }
  }

  const rotate = (token: string, key: string): object | undefined => {
    const known = rotations.get(token)
    if (!alive || !rotations.has(token)) return undefined
    if (known !== undefined && known.key !== key) alive = false
    if (known !== undefined) return known.key === key ? known.pair : undefined
    const pair = { ...session, ...tokens() }
    rotations.set(token, { key, pair })
    return pair
  }

  const act = (call: string, body: string, header: (name: string) => string): object | undefined => {
    if (call === "login") return { ...session, ...tokens(), ting: { subscribed: true } }
    if (call === "refresh") return rotate(JSON.parse(body).refresh_token, header("idempotency-key"))
    return alive && header("authorization") === `Bearer ${access}` ? examples["auth.me"].response : undefined
  }

  const reply = (response: ServerResponse, status: number, body: string, type = "application/json") =>
    response.writeHead(status, { "content-type": type, "x-request-id": "prove-1" }).end(body)

  const server = createServer((request, response) => {
    const call = request.url?.split("/").at(-1) ?? ""
    const answer = async () => {
      const sent = await text(request)
      const fault = faults.find((one) => one.call === call)
      faults = faults.filter((one) => one !== fault)
      const value =
        fault?.before === true ? {} : act(call, sent, (name) => String(request.headers[name] ?? ""))
      if (fault?.instead === "cut") return request.socket.destroy()
      if (fault?.instead === "hang") return undefined
      const right = JSON.stringify(value ?? refused)
      const status = fault?.status ?? (value === undefined ? 401 : 200)
      return reply(response, status, fault?.body?.(right) ?? right, fault?.type)
    }
    answer().catch(() => request.socket.destroy())
  }).listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port } = server.address() as AddressInfo

  return {
    baseUrl: `http://127.0.0.1:${port}`,
    /** The next access tokens live so long, and the present one has ended. */
    expire: (seconds: number) => {
      life = seconds
      access = "none"
    },
    plan: (planned: ReadonlyArray<Fault>) => {
      faults = planned
    },
    alive: () => alive,
    close: () => {
      server.closeAllConnections()
      server.close()
    }
  }
}
