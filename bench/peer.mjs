// The minimal cost of a webhook: a bare HTTP server that appends every request to a file and waits for the disk.
import { createHmac } from "node:crypto"
import { open } from "node:fs/promises"
import { createServer } from "node:http"

const [, , file] = process.argv
const log = await open(file, "a")

const server = createServer((request, response) => {
  const chunks = []
  request.on("data", (chunk) => chunks.push(chunk))
  request.on("end", async () => {
    const body = Buffer.concat(chunks)
    createHmac("sha256", "peer").update(body).digest("hex")
    await log.write(body)
    await log.sync()
    response.writeHead(200, { "content-type": "application/json" })
    response.end('{"received":true}')
  })
})
server.listen(0, "127.0.0.1", () => process.send({ ready: `http://127.0.0.1:${server.address().port}` }))
process.on("disconnect", () => process.exit(0))
