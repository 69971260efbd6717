/**
 * Text of callers in everything that the service shows: answers, the log, metrics, spans, its own telemetry, rows but the reports', and the
 * terminal of an operator. A word that is sent in every place may appear in none of them. Raw bytes have their attack in Syntax.ts.
 */
import * as Effect from "effect/Effect"
import { run, wholeEnvironment } from "../../cli/Harness.ts"
import { until } from "../../durability/Client.ts"
import { type Bench, type IdentityAttack, newKey, type Sent, writtenBy } from "./Bench.ts"

const word = "CANARY7f3a"
/** What ends a line, changes a terminal, breaks a label or begins another field, and what has the form of a credential. */
const forms = [
  `${word}%0d%0aX-Injected: 1`,
  `"} ${word}{a="`,
  `\\n${word}`,
  `${word}\x80\x9b31m`,
  `oat_${word}${"a1B2".repeat(9)}`,
  `ask_${word}${"a1B2".repeat(9)}`
]
const headers =
  "X-Request-Id X-Music-Source X-Music-Client-Version X-Music-Telemetry X-Org-ID X-Testing-Environment-Key Authorization Idempotency-Key traceparent tracestate baggage User-Agent Referer Origin Cookie Accept Accept-Encoding If-None-Match X-Forwarded-For X-Forwarded-Proto Access-Control-Request-Method Access-Control-Request-Headers".split(
    " "
  )
const methods = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND", "M-SEARCH", "PURGE", "QUERY"]
const paths = ["/", "/api/v1/", "/webhook/", "/docs/", "/openapi.json/", "/api/v1/auth/me/"]
const calls = [
  "auth/login",
  "auth/refresh",
  "auth/logout",
  "reports",
  "telemetry",
  "tings",
  "ting/subscription"
]
const bodies = [
  // A name of plain letters is shown as the path of the problem.
  `{"\\u001b[31m${word}":1}`,
  `{"oat_${word}${"a1B2".repeat(9)}":1}`,
  `{"${word} ${"x".repeat(300)}":1}`,
  `{"slt":["${word}"],"refresh_token":{"${word}":1},"token":7,"message":"${word}","table":"${word}","type":["${word}"]}`,
  `"${word}"`,
  `{"${word}`,
  `{"__proto__":{"${word}":1}}`
]

const requests = (): ReadonlyArray<Sent> => [
  ...headers.flatMap((name) =>
    forms.flatMap(
      (value): ReadonlyArray<Sent> => [
        { path: "/api/v1/auth/me", headers: [[name, value]] },
        { path: "/api/v1/reports", headers: [[name, value]], body: "{}" }
      ]
    )
  ),
  ...methods.map((method) => ({ method, path: `/${word}` })),
  ...paths.map((path) => ({ path: `${path}${word}?${word}=${word}` })),
  ...calls.flatMap((call) =>
    bodies.map((body): Sent => ({ path: `/api/v1/${call}`, headers: newKey(), body }))
  ),
  { path: "/webhook/", body: `{"test":"${word}"}` },
  { path: "/api/v1/reports", headers: [["Content-Type", `text/${word}`]], body: "{}" }
]

/** A report whose texts would take over a terminal. */
const hostile = {
  message: `\u001b]0;title\u0007\u001b[2J\u001b[31m first line of a report\rsecond \u202egnp.exe\u2066 \u009b1m \u0000 \u2028 third`,
  attachments: [{ name: "\u001b[1A\u202ename", content: "\u001b[?1049h\u001bP+q\u001b\\ \u0085 text" }],
  context: { "\u001b[8m": ["\u001b[0m", "\u200f", "\u{e0041}"] }
}
/** Controls but the line feed, and what reorders or hides text. */
const unsafe = /(?!\n)\p{Cc}|[\p{Cf}\u2028\u2029]/u

const playTerminal = async ({ databasePath, first, world }: Bench): Promise<ReadonlyArray<string>> => {
  const answer = await first({ path: "/api/v1/reports", headers: newKey(), body: JSON.stringify(hostile) })
  const { id } = JSON.parse(answer.text)
  const environment = wholeEnvironment(world, { databasePath, port: 0 })
  const broken: Array<string> = []
  for (const command of [["list"], ["show", id], ["list", "--json"], ["show", id, "--json"]]) {
    const { err, exit, out } = await Effect.runPromise(run(["reports", ...command], environment))
    const found = unsafe.exec(out + err)?.[0]
    if (exit !== 0 || !out.includes(id)) broken.push(`reports ${command[0]}: ${exit} ${err}`)
    if (found !== undefined)
      broken.push(`reports ${command.join(" ")} shows U+${found.codePointAt(0)?.toString(16)}`)
  }
  return broken
}

/** Origins that resemble the allowed one. */
const allowed = "https://app.music.example"
const resembling = [
  ...[`${allowed}.evil.example`, `${allowed}:443`, `${allowed}/`, `${allowed} https://evil.example`],
  ...[allowed.toUpperCase(), allowed.replace("https", "http"), allowed.replace("//", "//evil."), "null", "*"]
]

const playOrigins = async ({ first }: Bench): Promise<ReadonlyArray<string>> => {
  const broken: Array<string> = []
  for (const origin of [allowed, ...resembling])
    for (const method of ["GET", "OPTIONS"]) {
      const asked = [["Origin", origin] as const, ["Access-Control-Request-Method", "GET"] as const]
      const answer = await first({ method, path: "/api/v1/auth/login", headers: asked })
      const given = answer.headers["access-control-allow-origin"]
      if (given !== (origin === allowed ? allowed : undefined))
        broken.push(`allows the origin ${JSON.stringify(origin)} as ${given}`)
    }
  return broken
}

export const shownAttack: IdentityAttack = {
  name: "text of callers in what is shown",
  play: async (bench) => {
    const broken: Array<string> = []
    const show = (what: string, text: string) => {
      const at = text.indexOf(word)
      if (at >= 0)
        broken.push(`${what} shows the word: ${JSON.stringify(text.slice(Math.max(0, at - 80), at + 40))}`)
    }
    for (const request of requests()) {
      const answer = await bench.first(request)
      const of = `${request.method ?? ""} ${request.path} ${JSON.stringify([request.headers, request.body])}`
      show(`the answer to ${of}`, JSON.stringify([answer.headers, answer.text]))
      if ("x-injected" in answer.headers) broken.push(`a header was injected by ${of}`)
    }
    // Spans and the service's own events are sent within seconds.
    const every = ["a span", "the service's own telemetry"]
    const written = async () => {
      const all = await writtenBy(bench)
      return every.every((place) => all.get(place)?.includes("/api/v1/auth/me"))
    }
    await until("spans and events", written, { every: 50, within: 60_000 })
    for (const [place, text] of await writtenBy(bench)) show(place, text)
    return [...new Set(broken), ...(await playTerminal(bench)), ...(await playOrigins(bench))]
  }
}
