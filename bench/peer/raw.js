/** What Node itself costs: a bare HTTP server that answers `GET /healthz` and `GET /readyz` with a constant. */
import { createServer } from "node:http"

const body = '{"status":"ok","service":"music-backend","version":"0.1.0"}'
const headers = { "content-type": "application/json", "content-length": String(body.length) }

const server = createServer((_, response) => {
  response.writeHead(200, headers)
  response.end(body)
})

const [host, port] = process.env.MUSIC_BIND.split(":")
server.listen(Number(port), host)
process.on("SIGTERM", () => process.exit(0))
