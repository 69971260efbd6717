/** Attacks with text that the service could repeat: in a header, in a body, in a line of its log. */
import type { Attack } from "./Attack.ts"
import type { AttackedServer } from "./AttackedServer.ts"
import { wrongIn } from "./Syntax.ts"
import { exchange, header } from "./Wire.ts"

/** Every injection holds it; nothing that the service writes may. */
const marker = "INJECTED"

/** Ends of lines in the forms that some program takes for one, and terminal escapes. */
const injections = [
  `x%0d%0aX-${marker}: 1`,
  `x\\r\\nX-${marker}: 1`,
  `x\r\n X-${marker}: 1`,
  `x\tX-${marker}: 1`,
  // U+560D and U+560A end in the bytes of CR and LF; U+0085 and U+2028 end lines for some readers.
  Buffer.from(`x\u560d\u560aX-${marker}: 1`).toString("latin1"),
  Buffer.from(`x\u0085\u2028X-${marker}: 1`).toString("latin1"),
  `x\u0085X-${marker}: 1`,
  `x\u009b31m${marker}`,
  `","level":"error","message":"${marker}`,
  `<script>${marker}</script>`,
  `\${jndi:ldap://${marker}}`,
  `${marker}%s%d%n`,
  `${marker}, ${marker}`
]

/** Headers whose value is repeated, recorded or compared somewhere. */
const names = [
  "X-Request-Id",
  "Origin",
  "traceparent",
  "tracestate",
  "X-Music-Client-Version",
  "X-Music-Source",
  "X-Music-Telemetry",
  "X-Org-ID",
  "Authorization",
  "Idempotency-Key",
  "X-Testing-Environment-Key",
  "Accept",
  "If-None-Match",
  "Accept-Encoding",
  "Access-Control-Request-Method",
  "Access-Control-Request-Headers",
  "Content-Type",
  "User-Agent",
  "Referer",
  "X-Forwarded-For",
  "X-Forwarded-Host",
  "Forwarded",
  "Cookie",
  "Expect",
  "Upgrade",
  "X-Silicon-IAM-Event-ID",
  "X-Silicon-IAM-Signature"
]

const lines = [
  "GET /api/v1/version",
  "GET /api/v1/auth/me",
  "OPTIONS /api/v1/tings",
  "DELETE /healthz",
  "GET /nowhere",
  "POST /api/v1/auth/login",
  "GET /openapi.json"
]

const request = (line: string, headers: string, body = "") =>
  `${line} HTTP/1.1\r\nHost: music.example\r\nContent-Length: ${body.length}\r\n${headers}\r\n${body}`

const texts = (): ReadonlyArray<string> => [
  ...names.flatMap((name, at) =>
    injections.map((value, next) => request(lines[(at + next) % lines.length] ?? "", `${name}: ${value}\r\n`))
  ),
  ...injections.flatMap((value) => {
    const target = value.replace(/[\s]/g, "+")
    return [
      request(`GET /${target}`, ""),
      request(`GET /api/v1/version?${target}`, ""),
      request(`GET http://${target}/healthz`, ""),
      request(`PUT /api/v1/auth/login?${target}`, ""),
      request("GET /healthz", `${target.replace(/[^A-Za-z0-9-]/g, "")}: 1\r\n`),
      request(
        "POST /api/v1/telemetry",
        "Content-Type: application/json\r\n",
        JSON.stringify({ table: value, [value]: value, events: [{ [value]: value }] })
      ),
      request(
        "POST /api/v1/auth/login",
        "Content-Type: application/json\r\nIdempotency-Key: reflection-0123456789\r\n",
        JSON.stringify({ slt: value, [value]: 1 })
      )
    ]
  })
]

const play = async (server: AttackedServer, from: string): Promise<ReadonlyArray<string>> => {
  const all = texts()
  const broken: Array<string> = []
  const playOne = async (text: string, at: number) => {
    const { answers } = await exchange(server, text, `${from}${1 + Math.floor(at / 100)}`)
    const faults = answers.flatMap((answer) => [
      ...wrongIn(answer),
      ...[...answer.headers.entries()]
        .filter((entry) => JSON.stringify(entry).includes(marker))
        .map(([name]) => `the header ${name} repeats it`),
      ...([...answer.headers.keys()].some((name) => name.includes(marker.toLowerCase()))
        ? ["a header is injected"]
        : []),
      // The name of an unknown field is the caller's own text; only its path repeats it.
      ...(answer.body.replace(/"path":"(?:[^"\\]|\\.)*"/g, "").includes(marker)
        ? ["the body repeats it"]
        : [])
    ])
    if (answers.length === 0) faults.push("no answer")
    broken.push(...faults.map((fault) => `${fault}; sent ${JSON.stringify(text)}`))
  }
  for (let at = 0; at < all.length; at += 20)
    await Promise.all(all.slice(at, at + 20).map((text, next) => playOne(text, at + next)))
  const logged = server.lines().filter((line) => line.includes(marker) || line.includes("\u009b"))
  return [...broken, ...logged.map((line) => `the log repeats it: ${line}`)]
}

/** Origins that resemble the allowed one. */
const resembling = (allowed: string) => [
  `${allowed}.evil.example`,
  `${allowed}:443`,
  `${allowed}/`,
  `${allowed} https://evil.example`,
  allowed.toUpperCase(),
  allowed.replace("https", "http"),
  allowed.replace("//", "//evil."),
  "https://evil.example",
  "null",
  "*",
  "",
  "file://"
]

const allowedOrigin = "https://app.music.example"

const origins: Attack["play"] = async ({ start }) => {
  const server = await start({ MUSIC_WEB_ORIGINS: allowedOrigin })
  const ask = async (line: string, origin: string) => {
    const text = request(line, `Origin: ${origin}\r\nAccess-Control-Request-Method: GET\r\n`)
    const { answers } = await exchange(server, text, "127.0.10.200")
    const [answer] = answers
    return [
      header(answer, "access-control-allow-origin"),
      header(answer, "access-control-allow-credentials"),
      header(answer, "access-control-allow-methods") === undefined
    ] as const
  }
  const broken: Array<string> = []
  for (const line of ["GET /api/v1/version", "OPTIONS /api/v1/auth/login", "GET /api/v1/nowhere"]) {
    for (const origin of resembling(allowedOrigin)) {
      const [given, credentials, noMethods] = await ask(line, origin)
      if (given !== undefined || credentials !== undefined || !noMethods)
        broken.push(`${line} allows the origin ${JSON.stringify(origin)} as ${given}`)
    }
    const [given, credentials] = await ask(line, allowedOrigin)
    if (given !== allowedOrigin || credentials !== undefined) broken.push(`${line} does not allow its origin`)
  }
  return broken
}

export const reflectionAttacks: ReadonlyArray<Attack> = [
  { name: "values that are repeated", play: ({ server }) => play(server, "127.0.10.") },
  {
    name: "values in a log for people",
    apart: true,
    play: async ({ start }) =>
      play(await start({ MUSIC_LOG_FORMAT: "pretty", MUSIC_LOG_LEVEL: "debug" }), "127.0.11.")
  },
  { name: "origins like the allowed one", apart: true, play: origins }
]
