import { describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import { raw, sharedBackend } from "../support.ts"

const get = (path: string, ...headers: ReadonlyArray<string>) =>
  `${[`GET ${path} HTTP/1.1`, "Host: a", ...headers].join("\r\n")}\r\n\r\n`

describe("Expect: 100-continue", () => {
  it.scoped(
    "never puts an interim response into the answer of a request that waits behind another one",
    function* () {
      const server = yield* sharedBackend
      // Node ends the connection after a final answer without the interim one.
      const text = yield* raw(server, get("/readyz") + get("/openapi.json", "Expect: 100-continue"))
      const answers = text.split(/(?=HTTP\/1\.1 200 OK\r\n)/)
      expect(answers.length).toBe(2)
      for (const answer of answers) {
        const [head = ""] = answer.split("\r\n\r\n", 1)
        const length = Number(/^content-length: (\d+)$/im.exec(head)?.[1])
        expect(Buffer.byteLength(answer.slice(head.length + 4))).toBe(length)
      }
      expect(answers[1]).toMatch(/^connection: close\r$/im)
    }
  )

  it.scoped("is answered at once where no other request is before it", function* () {
    const server = yield* sharedBackend
    const text = yield* raw(server, get("/healthz", "Expect: 100-continue", "Connection: close"))
    expect(text).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK\r\n/)
  })
})
