/** The proxies of `ops`, started as separate programs from their own files; only names, ports, and the files of the certificate differ. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { request as plainRequest } from "node:http"
import { request } from "node:https"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { authorityFile } from "../support/Egress.ts"
import { freePort, type Running, root, start } from "../world/Fleet.ts"
import { waitFor } from "../support/Waiting.ts"

interface Place {
  readonly folder: string
  /** The proxy's own port, and the server's. */
  readonly port: number
  readonly upstream: number
}

export interface Proxy {
  readonly name: "nginx" | "caddy"
  readonly example: string
  readonly run: (example: string, place: Place) => Running
}

const ca = readFileSync(authorityFile)
const key = authorityFile.replace(/\.pem$/, "-key.pem")

const nginx: Proxy = {
  name: "nginx",
  example: readFileSync(join(root, "ops/nginx/music-backend.conf"), "utf8"),
  run: (example, { folder, port, upstream }) => {
    const site = example
      .replace(/^ *listen .*\[::\].*\n/gm, "")
      .replace("listen 80;", `listen unix:${folder}/http.sock;`)
      .replace("listen 443 ssl;", `listen 127.0.0.1:${port} ssl;`)
      .replaceAll("music.example", "localhost")
      .replace("127.0.0.1:8787", `127.0.0.1:${upstream}`)
      .replace(/ssl_certificate .*;/, `ssl_certificate ${authorityFile};`)
      .replace(/ssl_certificate_key .*;/, `ssl_certificate_key ${key};`)
    const file = join(folder, "nginx.conf")
    const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
      .map((name) => `${name}_temp_path ${folder}/${name};`)
      .join("\n")
    // Without root it warns that it ignores the user.
    writeFileSync(
      file,
      `user root;\ndaemon off;\npid ${folder}/pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n${paths}\n${site}}\n`
    )
    return start("nginx", ["-e", "stderr", "-p", folder, "-c", file], { PATH: programs })
  }
}

const caddy: Proxy = {
  name: "caddy",
  example: readFileSync(join(root, "ops/caddy/Caddyfile"), "utf8"),
  run: (example, { folder, port, upstream }) => {
    const site = example
      .replace(/^music\.example \{/m, `localhost:${port} {\nbind 127.0.0.1\ntls ${authorityFile} ${key}`)
      .replace("127.0.0.1:8787", `127.0.0.1:${upstream}`)
    const file = join(folder, "Caddyfile")
    writeFileSync(file, `{\nadmin off\nauto_https disable_redirects\n}\n${site}`)
    return start("caddy", ["run", "--adapter", "caddyfile", "--config", file], {
      PATH: programs,
      HOME: folder,
      XDG_DATA_HOME: folder,
      XDG_CONFIG_HOME: folder
    })
  }
}

/** nginx is in sbin, which a shell without root does not search. */
const programs = `${process.env.PATH}:/usr/sbin:/sbin`

export const proxies: ReadonlyArray<Proxy> = [nginx, caddy]

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly body: string
}

export interface Sent {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Buffer | string
}

/** Asks over TLS from 127.0.0.2, so that the client is no trusted proxy. */
export const ask = (port: number, path: string, { body, headers = {}, method = "GET" }: Sent = {}) =>
  new Promise<Answer>((resolve, reject) => {
    const sent = request(
      {
        host: "127.0.0.1",
        servername: "localhost",
        port,
        path,
        method,
        agent: false,
        ca,
        localAddress: "127.0.0.2"
      },
      (response) => {
        const parts: Array<Buffer> = []
        response.on("data", (part: Buffer) => parts.push(part))
        response.on("error", reject)
        response.on("end", () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body: Buffer.concat(parts).toString("utf8")
          })
        )
      }
    )
    sent.on("error", reject)
    for (const [name, value] of Object.entries({ host: "localhost", ...headers })) sent.setHeader(name, value)
    sent.end(body)
  })

/** What nginx answers to plain HTTP, which it takes at a socket of its folder. */
export const askPlainly = (folder: string, path: string, host: string) =>
  new Promise<Pick<Answer, "status" | "headers">>((resolve, reject) => {
    plainRequest({ socketPath: join(folder, "http.sock"), path, headers: { host } }, (response) => {
      response.resume()
      resolve({ status: response.statusCode ?? 0, headers: response.headers })
    })
      .on("error", reject)
      .end()
  })

/** The proxy in front of a server; stopped with the scope. Returns its port and its folder. */
export const startProxy = (proxy: Proxy, upstream: number) =>
  Effect.gen(function* () {
    const folder = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "music-proxy-"))),
      (made) => Effect.sync(() => rmSync(made, { recursive: true, force: true }))
    )
    const port = yield* Effect.promise(freePort)
    const running = yield* Effect.acquireRelease(
      Effect.sync(() => proxy.run(proxy.example, { folder, port, upstream })),
      ({ child, ended }) =>
        Effect.promise(() => {
          child.kill("SIGTERM")
          return ended
        })
    )
    yield* Effect.promise(() =>
      Promise.race([
        waitFor(() => ask(port, "/healthz")),
        running.ended.then(() => Promise.reject(new Error(running.output())))
      ])
    )
    return { port, folder }
  })
