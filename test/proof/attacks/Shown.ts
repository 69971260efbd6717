/**
 * Text of callers in everything else that the service shows: answers, the log, metrics, spans, its own telemetry, and the terminal of
 * an operator. A word that is sent in every place may appear in none of them but the report itself.
 */
import * as Effect from "effect/Effect"
import { until } from "../../durability/Client.ts"
import { routes } from "../../../src/http/middleware/Routes.ts"
import { run, wholeEnvironment } from "../../cli/Harness.ts"
import type { ApartAttack } from "./ApartAttack.ts"
import { bearing, type Bench, type HeaderLines, logIn, newKey, type Sent, send, withBench } from "./Bench.ts"

const word = "CANARY7f3a"
/** What ends a line, changes a terminal, breaks a label or begins another field; in one header each. */
const forms = [
  word,
  `${word}%0d%0aX-Injected: 1`,
  `"} ${word}{a="`,
  `\\n${word}`,
  `${word}\x80\x9b31m`,
  `oat_${word}${"a1B2".repeat(9)}`,
  `ask_${word}${"a1B2".repeat(9)}`
]
const readHeaders = [
  "X-Request-Id",
  "X-Music-Source",
  "X-Music-Client-Version",
  "X-Music-Telemetry",
  "X-Org-ID",
  "X-Testing-Environment-Key",
  "Authorization",
  "Idempotency-Key",
  "traceparent",
  "tracestate",
  "baggage",
  "User-Agent",
  "Referer",
  "Origin",
  "Cookie",
  "Accept",
  "Accept-Encoding",
  "X-Forwarded-For",
  "X-Forwarded-Proto",
  "Access-Control-Request-Method",
  "Access-Control-Request-Headers"
]
/** Their values are shown by contract, where they are well-formed. */
const isShown = (name: string, value: string): boolean =>
  name === "X-Request-Id" && /^[A-Za-z0-9._-]{8,128}$/.test(value) && !/^(?:oat|ask)_/.test(value)

const methods = [
  "GET",
  "HEAD",
  "POST",
  "PUT",
  "DELETE",
  "PATCH",
  "OPTIONS",
  "PROPFIND",
  "M-SEARCH",
  "PURGE",
  "QUERY",
  "LINK"
]

const requests = (): ReadonlyArray<Sent> => [
  ...readHeaders.flatMap((name) =>
    forms
      .filter((value) => !isShown(name, value))
      .flatMap(
        (value): ReadonlyArray<Sent> => [
          { path: "/api/v1/auth/me", headers: [[name, value]] },
          { path: "/api/v1/reports", headers: [[name, value]], body: "{}" }
        ]
      )
  ),
  ...methods.filter((method) => method !== "HEAD").map((method) => ({ method, path: `/${word}` })),
  ...["/", "//", "/api/v1/", "/webhook/", "/docs/", "/openapi.json/", "/api/v1/auth/me/"].map((path) => ({
    path: `${path}${word}?${word}=${word}#${word}`
  })),
  { path: `/api/v1/version?${word}` },
  ...[
    "auth/login",
    "auth/refresh",
    "auth/logout",
    "reports",
    "telemetry",
    "tings",
    "ting/subscription"
  ].flatMap((path) =>
    [
      // A name of plain letters is shown as the path of the problem.
      `{"\\u001b[31m${word}":1}`,
      `{"oat_${word}${"a1B2".repeat(9)}":1}`,
      `{"${word} ${"x".repeat(300)}":1}`,
      `{"slt":["${word}"],"refresh_token":{"${word}":1},"token":7,"message":"${word}","table":"${word}","type":["${word}"]}`,
      `"${word}"`,
      `{"${word}`,
      `{"__proto__":{"${word}":1}}`
    ].map((body): Sent => ({ path: `/api/v1/${path}`, headers: [["Idempotency-Key", newKey()]], body }))
  ),
  { path: "/webhook/", body: `{"test":"${word}"}` },
  {
    path: "/api/v1/reports",
    headers: [
      ["Content-Type", `text/${word}`],
      ["Idempotency-Key", newKey()]
    ],
    body: "{}"
  }
]

const metricsOf = async ({ admin }: Bench): Promise<string> => (await send(admin, { path: "/metrics" })).body
const knownRoutes: ReadonlySet<string> = new Set([...routes.keys(), "unmatched", "unparsed"])
const knownMethods: ReadonlySet<string> = new Set([
  "GET",
  "HEAD",
  "POST",
  "OPTIONS",
  "PUT",
  "PATCH",
  "DELETE",
  "_OTHER"
])

/** A report whose texts would take over a terminal. */
const hostile = {
  message: `\u001b]0;title\u0007\u001b[2J\u001b[31m first line of a report\rsecond \u202egnp.exe\u2066 \u009b1m \u0000 \u2028 third`,
  attachments: [{ name: "\u001b[1A\u202ename", content: "\u001b[?1049h\u001bP+q\u001b\\ \u0085 text" }],
  context: { "\u001b[8m": ["\u001b[0m", "\u200f", "\u{e0041}"] }
}
/** Controls but the line feed, and what reorders or hides text. */
const unsafe = /(?!\n)\p{Cc}|[\p{Cf}\u2028\u2029]/u

const playTerminal = async (bench: Bench): Promise<ReadonlyArray<string>> => {
  const { accessToken } = await logIn(bench)
  const answer = await send(bench.first, {
    path: "/api/v1/reports",
    headers: [["Idempotency-Key", newKey()], ...bearing(accessToken)],
    body: JSON.stringify(hostile)
  })
  if (answer.status !== 200) return [`the report was ${answer.status} ${answer.body}`]
  const { id } = JSON.parse(answer.body)
  const environment = wholeEnvironment(bench.world, { databasePath: bench.databasePath, port: 0 })
  const broken: Array<string> = []
  for (const command of [["list"], ["show", id], ["list", "--json"], ["show", id, "--json"]]) {
    const shown = await Effect.runPromise(run(["reports", ...command], environment, { columns: 100 }))
    const found = unsafe.exec(shown.out + shown.err)
    if (shown.exit !== 0 || !shown.out.includes(id))
      broken.push(`reports ${command[0]}: ${shown.exit} ${shown.err}`)
    if (found !== null)
      broken.push(`reports ${command.join(" ")} shows U+${found[0].codePointAt(0)?.toString(16)}`)
  }
  return broken
}

export const shownAttack: ApartAttack = {
  name: "text of callers in what is shown",
  play: () =>
    withBench(
      async (bench) => {
        const broken: Array<string> = []
        const show = (what: string, text: string) => {
          const at = text.indexOf(word)
          if (at >= 0)
            broken.push(
              `${what} shows the word: ${JSON.stringify(text.slice(Math.max(0, at - 80), at + 40))}`
            )
        }
        const sendAll = async () => {
          for (const request of requests()) {
            const answer = await send(bench.first, request)
            const lines: HeaderLines = [...answer.headers].flatMap(([name, values]) =>
              values.map((value) => [name, value] as const)
            )
            const of = `${request.method ?? ""} ${request.path} ${JSON.stringify(request.headers ?? [])} ${String(request.body ?? "")}`
            show(`the answer to ${of}`, `${JSON.stringify(lines)}\n${answer.body}`)
            if (answer.headers.has("x-injected")) broken.push(`a header was injected by ${of}`)
          }
        }
        await sendAll()
        const exposition = await metricsOf(bench)
        // Other instances of the process have series of their own; all have routes and methods of the contract.
        for (const [, label = "", value = ""] of exposition.matchAll(/\b(route|method)="((?:[^"\\]|\\.)*)"/g))
          if (!(label === "route" ? knownRoutes : knownMethods).has(value))
            broken.push(`the metrics have the ${label} ${JSON.stringify(value)}`)
        show("the metrics", exposition)
        show("the log", bench.log.join("\n"))
        // The buffer of the service's own events is written within seconds.
        const recorded = () =>
          JSON.stringify([bench.query("SELECT json FROM spool"), ...bench.world.tables.rows("musicbackend")])
        await until("own events", () => recorded().includes("/api/v1/auth/me"), {
          every: 50,
          within: 60_000
        })
        await until("spans", () => bench.traces().includes("/api/v1/auth/me"), {
          every: 50,
          within: 60_000
        })
        show("the service's own telemetry", recorded())
        show("a span", bench.traces())
        return [...new Set(broken)].concat(await playTerminal(bench))
      },
      { traced: true }
    )
}
