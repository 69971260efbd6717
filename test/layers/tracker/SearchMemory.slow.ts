/** A search of large issues, in a process whose heap cannot hold all pages together. */
import { once } from "node:events"
import { createServer } from "node:http"
import { fileURLToPath } from "node:url"
import { assert } from "vitest"
import { it } from "../../world/Test.ts"
import * as Effect from "effect/Effect"
import { start } from "../../world/Fleet.ts"

const program = fileURLToPath(new URL("./SearchProgram.ts", import.meta.url))
const marker = "report-ref: rep_1-0011"
const pages = 20
/** All pages together have 130 MB; the process needs about 60 without them. */
const heapMegabytes = 110
const text = "x".repeat(65_000)

const pageOf = (page: number): string =>
  JSON.stringify(
    Array.from({ length: 100 }, (_, index) => ({
      number: page * 100 + index,
      html_url: `https://github.com/harbor/music/issues/${page * 100 + index}`,
      user: { login: "harbor-bot" },
      created_at: "2026-11-21T10:00:00Z",
      body: `${text}${page % 10 === 0 && index === 7 ? `\n${marker}` : ""}`
    }))
  )

/** A repository full of issues of the longest size that GitHub allows. */
const tracker = Effect.acquireRelease(
  Effect.promise(async () => {
    const server = createServer((request, response) => {
      const { pathname, searchParams } = new URL(request.url ?? "", "http://127.0.0.1")
      const page = Number(searchParams.get("page") ?? "1")
      const next = page < pages ? { link: `<http://127.0.0.1/?page=${page + 1}>; rel="next"` } : {}
      response.writeHead(200, { "content-type": "application/json", ...next })
      response.end(pathname === "/user" ? JSON.stringify({ login: "harbor-bot" }) : pageOf(page))
    }).listen(0, "127.0.0.1")
    await once(server, "listening")
    return server
  }),
  (server) => Effect.sync(() => server.close().closeAllConnections())
)

it.scopedLive(
  "A search keeps only its hits in memory, not the pages",
  function* () {
    const address = (yield* tracker).address()
    const url = `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`
    const { ended, output } = yield* Effect.acquireRelease(
      Effect.sync(() =>
        start(
          process.execPath,
          [`--max-old-space-size=${heapMegabytes}`, "--import", "tsx", program, url, marker],
          {}
        )
      ),
      ({ child }) => Effect.sync(() => child.kill("SIGKILL"))
    )
    const { code } = yield* Effect.promise(() => ended)
    assert.strictEqual(output(), "[1007,2007]")
    assert.strictEqual(code, 0)
  },
  60_000
)
