/** The routes of the console's server that the documentation page uses, for tests of the page alone. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { json } from "node:stream/consumers"
import type { SimulatedUpstreams } from "../../sandbox/SimulatedUpstreams.ts"
import { production } from "../../sandbox/upstreams/Iam.ts"

export interface ConsoleStandIn {
  readonly origin: string
  /** What it answers for; before, and after `undefined`, every call is refused. */
  world: SimulatedUpstreams | undefined
  readonly close: () => void
}

interface Order {
  readonly plane: string
  readonly actor: string
  readonly org: string
  readonly event: string
}

const answer = (world: SimulatedUpstreams, path: string, { actor, event, org, plane }: Order): unknown => {
  const { controls } = world.iam
  const { environment } = world.seeded
  const planes = [
    { id: production, name: "production", key: null },
    { id: environment.environmentId, name: "music e2e", key: environment.musicSecret }
  ]
  switch (path) {
    case "/actors":
      return {
        planes,
        actors: planes.flatMap(({ id }) =>
          ["si:deejay", "si:lyra", "c:ana"].map((publicId) => ({
            plane: id,
            publicId,
            organizations: ["acme"]
          }))
        )
      }
    case "/slt":
      return { slt: controls.mintSlt(plane, { appId: "music", actor }) }
    case "/signed-webhook": {
      const about = controls.events.membershipUpdated(plane, actor, org)
      const { body, headers } = controls.buildWebhook(plane, { ...about, eventType: event, appId: "music" })
      return { headers, body: body.toString("utf8") }
    }
    default:
      return undefined
  }
}

export const startConsoleStandIn = async (): Promise<ConsoleStandIn> => {
  const respond = async (request: IncomingMessage, response: ServerResponse) => {
    response.setHeader("access-control-allow-origin", request.headers.origin ?? "null")
    response.setHeader("access-control-allow-headers", "content-type")
    response.setHeader("content-type", "application/json")
    if (request.method === "OPTIONS") return response.end()
    const order = request.method === "POST" ? await json(request) : {}
    if (standIn.world === undefined) {
      response.statusCode = 400
      return response.end(JSON.stringify({ message: "Refused.", hint: "Wait for the test." }))
    }
    // The page is the only caller.
    return response.end(JSON.stringify(answer(standIn.world, request.url ?? "", order as Order)))
  }
  const server = createServer((request, response) => void respond(request, response))
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done))
  const { port } = server.address() as AddressInfo
  const standIn: ConsoleStandIn = {
    origin: `http://127.0.0.1:${port}`,
    world: undefined,
    close: () => {
      server.close()
      server.closeAllConnections()
    }
  }
  return standIn
}
