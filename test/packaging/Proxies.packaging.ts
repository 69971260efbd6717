/** The proxies of `ops` with their own files, as separate programs; only names, ports, and the files of the certificate differ. */
import { readFileSync, writeFileSync } from "node:fs"
import { request } from "node:https"
import { join } from "node:path"
import { Effect } from "effect"
import { describe, expect } from "vitest"
import { startUpstreams } from "../../sandbox/SimulatedUpstreams.ts"
import { production } from "../../sandbox/upstreams/Iam.ts"
import { settingsTable } from "../../src/services/settings/SettingsTable.ts"
import { bodyLimits } from "../../src/schema/BodyLimits.ts"
import { authorityFile } from "../world/Egress.ts"
import { freePort, root } from "../world/Fleet.ts"
import { waitFor } from "../world/Waiting.ts"
import { temporaryFolder } from "../world/SqliteTemplate.ts"
import { it } from "../world/Test.ts"
import { background, listening, required } from "./Shell.ts"

const ca = readFileSync(authorityFile)
const key = authorityFile.replace(/\.pem$/, "-key.pem")

interface Proxy {
  readonly name: "nginx" | "caddy"
  readonly example: string
  /** The example for these ports, and the command that runs it, with `$FILE` for the example. */
  readonly adapt: (example: string, folder: string, port: number) => string
  readonly command: string
}

const nginx: Proxy = {
  name: "nginx",
  example: readFileSync(join(root, "ops/nginx/music-backend.conf"), "utf8"),
  adapt: (example, folder, port) => {
    const site = example
      .replace(/^ *listen .*\[::\].*\n/gm, "")
      .replace("listen 80;", `listen unix:${folder}/http.sock;`)
      .replace("listen 443 ssl;", `listen 127.0.0.1:${port} ssl;`)
      .replaceAll("music.example", "localhost")
      .replace(/ssl_certificate .*;/, `ssl_certificate ${authorityFile};`)
      .replace(/ssl_certificate_key .*;/, `ssl_certificate_key ${key};`)
    const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
      .map((name) => `${name}_temp_path ${folder}/${name};`)
      .join("\n")
    // Without root it warns that it ignores the user.
    const main = `user root;\ndaemon off;\npid ${folder}/pid;\nerror_log stderr;\nevents {}\n`
    return `${main}http {\naccess_log off;\n${paths}\n${site}}\n`
  },
  command: 'exec nginx -e stderr -p "$PWD" -c "$FILE"'
}

const caddy: Proxy = {
  name: "caddy",
  example: readFileSync(join(root, "ops/caddy/Caddyfile"), "utf8"),
  adapt: (example, _, port) => {
    const head = `localhost:${port} {\nbind 127.0.0.1\ntls ${authorityFile} ${key}`
    return example
      .replace(/^\{/m, "{\nadmin off\nauto_https disable_redirects")
      .replace(/^music\.example \{/m, head)
  },
  command: 'exec caddy run --adapter caddyfile --config "$FILE"'
}

interface Sent {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Buffer | string
}

/** Asks over TLS from 127.0.0.2, so that the client is no trusted proxy. */
const ask = (port: number, path: string, { body, headers = {}, method = "GET" }: Sent = {}) =>
  new Promise<{
    readonly status: number
    readonly headers: Readonly<Record<string, unknown>>
    readonly code: string | undefined
  }>((resolve, reject) => {
    const place = { host: "127.0.0.1", servername: "localhost", localAddress: "127.0.0.2", port, ca }
    const sent = request(
      { ...place, path, method, agent: false, headers: { host: "localhost", ...headers } },
      async (response) => {
        let text = ""
        for await (const chunk of response.setEncoding("utf8")) text += chunk
        const code = /^\{"error":\{"code":"(\w+)"/.exec(text)?.[1]
        resolve({ status: response.statusCode ?? 0, headers: response.headers, code })
      }
    )
    sent.on("error", reject)
    sent.end(body)
  })

/** A server with the proxy in front. */
const startBehind = ({ adapt, command, example, name }: Proxy) =>
  Effect.gen(function* () {
    const folder = yield* temporaryFolder
    const world = yield* startUpstreams(Date.now)
    const environment = {
      ...required(world),
      MUSIC_DATABASE_PATH: join(folder, "music.sqlite"),
      MUSIC_TRUSTED_PROXIES: "127.0.0.1",
      MUSIC_LOG_CLIENT_ADDRESS: "on"
    }
    const script = `exec '${process.execPath}' '${join(root, "dist/main.js")}'`
    const server = yield* background(script, { folder, environment })
    const { host } = new URL(yield* listening(server))
    const port = yield* Effect.promise(freePort)
    const file = join(folder, name)
    writeFileSync(file, adapt(example, folder, port).replace("127.0.0.1:8787", host))
    const own = { FILE: file, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
    // nginx is in sbin, which a shell without root does not search.
    const desk = { folder, environment: { ...own, PATH: `${process.env.PATH}:/usr/sbin:/sbin` } }
    const proxy = yield* background(command, desk)
    const ended = proxy.ended.then(() => Promise.reject(new Error(proxy.output())))
    yield* Effect.promise(() => Promise.race([waitFor(() => ask(port, "/healthz")), ended]))
    return { server, world, ask: (path: string, sent: Sent = {}) => ask(port, path, sent) }
  })

describe.each([nginx, caddy])("$name with its file of ops", (proxy) => {
  it("waits longer than a request may take, and gives up idle connections before the server does", () => {
    const seconds = (pattern: RegExp) => Number(pattern.exec(proxy.example)?.[1])
    const waits = seconds(/^\s*(?:proxy_read_timeout|response_header_timeout) (\d+)s/m)
    expect(waits).toBeGreaterThan(Number(settingsTable.requestDeadlineSeconds.default))
    const keeps = seconds(/^\s*(?:keepalive_timeout|keepalive) (\d+)s/m)
    expect(keeps).toBeLessThan(65)
    expect(keeps).toBeGreaterThan(0)
  })

  it.scopedLive(
    "ends TLS, and passes addresses, paths, headers and bodies as the server needs",
    function* () {
      const { ask, server, world } = yield* startBehind(proxy)
      const { controls } = world.iam
      const event = controls.events.membershipUpdated(production, "si:lyra", "acme")
      const webhook = { method: "POST", ...controls.buildWebhook(production, event) }
      yield* Effect.promise(async () => {
        const version = await ask("/api/v1/version", { headers: { "x-forwarded-for": "198.51.100.7" } })
        expect(version.status).toBe(200)
        expect(version.headers["strict-transport-security"]).toBe("max-age=31536000")
        const request = new RegExp(`"request_id":"${String(version.headers["x-request-id"])}".*`)
        const [logged = ""] = await server.says(request)
        expect(logged).toContain('"client_address":"127.0.0.2"')

        for (const path of ["/api//v1/version", "/api/v1/%76ersion", "/api/v1/../v1/version"])
          expect([path, (await ask(path)).code]).toEqual([path, "not_found"])
        expect((await ask("/webhook/", webhook)).status).toBe(200)

        // The longest token arrives, and what is too long for the server is refused by the server.
        const bearer = (characters: number) => ({
          headers: { authorization: `Bearer ${"t".repeat(characters)}`, "x-org-id": "acme" }
        })
        expect(await ask("/api/v1/auth/me", bearer(8_188))).toMatchObject({ code: "unauthenticated" })
        const long = { status: 431, code: "invalid_input" }
        expect(await ask("/api/v1/auth/me", bearer(16_384))).toMatchObject(long)
        const large = { ...webhook, body: Buffer.alloc(bodyLimits.webhook + 1, " ") }
        const refused = { status: 413, code: "payload_too_large" }
        expect(await ask("/webhook/", large)).toMatchObject(refused)
        // What is far beyond it is refused too, and never with a 502, after which clients try again. A client that still sends may be cut.
        const larger = { ...webhook, body: Buffer.alloc(4 * bodyLimits.webhook, " ") }
        const chunked = { ...larger, headers: { ...webhook.headers, "transfer-encoding": "chunked" } }
        for (const sent of [larger, chunked])
          expect([413, "cut"]).toContain(
            await ask("/webhook/", sent).then(
              ({ status }) => status,
              () => "cut"
            )
          )
      })
    }
  )
})
