/** Attacks with bodies: keys of prototypes, traps for parsers, encodings, and texts that are slow to search. */
import { gzipSync } from "node:zlib"
import { parseJson } from "../../../src/http/body/StrictJson.ts"
import { anonymise, anonymiseAll } from "../../../src/services/Anonymisation.ts"
import { canonicalJson } from "../../../src/services/Digest.ts"
import { redact } from "../../../src/services/Redaction.ts"
import { normaliseText } from "../../../src/services/TextNormalisation.ts"
import type { Random } from "../../durability/Random.ts"
import type { Attack } from "./Attack.ts"
import { wrongIn } from "./Syntax.ts"
import { ask } from "./Wire.ts"

interface Sent {
  readonly name: string
  readonly path: string
  readonly body: string | Uint8Array
  readonly headers?: Readonly<Record<string, string>>
  readonly expected: ReadonlyArray<number>
}

const report = "/api/v1/reports"
const telemetry = "/api/v1/telemetry"
const table = "musicclidaemon"
const message = "Playback stops after a seek."

const inReport = (context: string) => `{"message":"${message}","context":${context}}`
const inTelemetry = (event: string) => `{"table":"${table}","events":[${event}]}`

const nestings = (levels: number): ReadonlyArray<string> => [
  "[".repeat(levels) + "]".repeat(levels),
  `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`,
  `${'[{"a":'.repeat(levels / 2)}1${"}]".repeat(levels / 2)}`,
  "[".repeat(levels)
]

const prototypes = [
  '{"__proto__":{"polluted":1}}',
  '{"\\u005f_proto__":{"polluted":1}}',
  '{"a":{"__proto__":[]}}',
  '{"a":[{"__proto__":null}]}',
  '{"__proto__":1,"__proto__":2}'
]

/** Own keys of an object that no code reads as anything else. */
const harmless = [
  '{"constructor":{"prototype":{"polluted":1}}}',
  '{"toString":1,"valueOf":2,"hasOwnProperty":3,"toJSON":4,"then":5}',
  '{"length":1e9,"0":1}'
]

const bodies = (): ReadonlyArray<Sent> => {
  const both = (name: string, value: string, expected: ReadonlyArray<number>): ReadonlyArray<Sent> => [
    { name, path: telemetry, body: inTelemetry(value.startsWith("{") ? value : `{"a":${value}}`), expected },
    { name, path: report, body: inReport(value.startsWith("{") ? value : `{"a":${value}}`), expected }
  ]
  const many = (make: (at: number) => string) =>
    `{${Array.from({ length: 2_000 }, (_, at) => make(at)).join(",")}}`
  return [
    ...prototypes.flatMap((value) => both("a prototype", value, [400])),
    ...harmless.flatMap((value) => both("a key of every object", value, [200, 204, 503])),
    ...nestings(70).flatMap((value) => both("70 levels", value, [400])),
    ...nestings(10_000).flatMap((value) => both("10,000 levels", value, [400])),
    ...both("a number of 20,000 digits", "9".repeat(20_000), [400]),
    ...both("a number with 20,000 places", `0.${"1".repeat(20_000)}`, [200, 204]),
    ...both("an exponent", "1e400", [400]),
    ...both(
      "equal keys",
      many(() => '"a":1'),
      [200, 204]
    ),
    ...both(
      "keys that are indices",
      many((at) => `"${at * 2_097_143}":1`),
      [200, 204]
    ),
    ...both(
      "keys of one length",
      many((at) => `"${String(at).padStart(8, "a")}":1`),
      [200, 204]
    ),
    ...both("escapes", `"${"\\u0041".repeat(4_000)}"`, [200, 204]),
    ...both("a lone surrogate", '"\\ud800"', [400]),
    ...["gzip", "deflate", "br", "x-gzip", "zstd", "identity, gzip", "GZIP"].map(
      (encoding): Sent => ({
        name: `the encoding ${encoding}`,
        path: telemetry,
        body: gzipSync(Buffer.alloc(16 * 1024 ** 2)),
        headers: { "Content-Encoding": encoding },
        expected: [415]
      })
    ),
    ...[
      "application/x-www-form-urlencoded",
      "multipart/form-data; boundary=a",
      "text/plain",
      "application/xml"
    ].map(
      (type): Sent => ({
        name: type,
        path: telemetry,
        body: "__proto__[polluted]=1&constructor[prototype][polluted]=1",
        headers: { "Content-Type": type },
        expected: [415]
      })
    ),
    {
      name: "41 events",
      path: telemetry,
      body: inTelemetry(Array(41).fill("{}").join(",")),
      expected: [400]
    },
    {
      name: "20,000 events",
      path: telemetry,
      body: inTelemetry(Array(20_000).fill("{}").join(",")),
      expected: [400]
    },
    {
      name: "20,000 attachments",
      path: report,
      body: inReport("null").replace("{", `{"attachments":[${Array(20_000).fill("1").join(",")}],`),
      expected: [400]
    }
  ]
}

const playBodies: Attack["play"] = async ({ random, server }) => {
  const broken: Array<string> = []
  for (const [at, { body, expected, headers, name, path }] of bodies().entries()) {
    const answer = await ask(server, {
      path,
      body,
      headers: { "Idempotency-Key": `payload-${random.below(1e9)}-${at}-0123456789`, ...headers },
      // Reports are limited to a few of one address.
      from: `127.0.12.${1 + at}`
    })
    const faults = answer === undefined ? ["no answer"] : wrongIn(answer)
    if (answer !== undefined && !expected.includes(answer.status))
      broken.push(`${name} at ${path}: ${answer.status} ${answer.body.slice(0, 200)} instead of ${expected}`)
    broken.push(...faults.map((fault) => `${name} at ${path}: ${fault}`))
  }
  const healthy = await ask(server, { path: "/healthz", from: "127.0.12.250" })
  const keys = Object.keys(JSON.parse(healthy?.body ?? "{}"))
  return [...broken, ...(keys.includes("polluted") ? ["a prototype is polluted"] : [])]
}

/** Parts of texts that the patterns of the service begin to match, or fail to match late. */
const parts = [
  "\\",
  "\\\\",
  "u0061",
  "\\u0061",
  "\\ud83d",
  "\\x5f",
  "%25",
  "%",
  "%5f",
  "%c3%a9",
  "%u0061",
  "&amp;",
  "&#",
  "0",
  "x5f;",
  "&colon",
  ";",
  "ask_",
  "oat_",
  "a",
  "A",
  "_",
  "-",
  ".",
  "+",
  "~",
  "=",
  "/",
  "a_",
  "a-b_",
  "Bearer ",
  "bearer+",
  "authorization: ",
  'Authorization\\":',
  "Basic ",
  "[",
  "]",
  "(",
  "`",
  "@",
  "#",
  "GH-1",
  "report-ref",
  "si:",
  "si:deejay",
  "c:",
  "c_abc",
  "stk-",
  "table-a-",
  "github_pat_",
  "ghp_",
  "\u200b",
  "\u00ad",
  "\ufeff",
  "\ud800",
  "\r",
  "\r\n",
  "\n",
  "\t",
  " ",
  "\u2028",
  "ａ",
  "ﬁ",
  "ä",
  "<",
  "!",
  "://",
  "https:"
]

const functions: Readonly<Record<string, (text: string) => unknown>> = {
  redact,
  anonymise: (text) => anonymise(text, "si:deejay"),
  anonymiseAll,
  normaliseText,
  parseJson: (text) => parseJson(Buffer.from(JSON.stringify({ text }))),
  canonicalJson: (text) =>
    canonicalJson(Object.fromEntries(text.split("").map((letter, at) => [`${letter}${at}`, at])))
}

/** Milliseconds of the processor, the least of some runs. */
const timeOf = (run: () => void, runs: number): number => {
  let least = Number.POSITIVE_INFINITY
  for (let count = 0; count < runs; count += 1) {
    const began = process.cpuUsage()
    run()
    const { system, user } = process.cpuUsage(began)
    least = Math.min(least, (user + system) / 1_000)
  }
  return least
}

const small = 3_000
const growth = 4
/** A linear function takes 4 times as long, a quadratic one 16 times. */
const most = 9
/** Milliseconds below which a time is not compared. */
const measurable = 4

/** The growth of the time with the length, from so many characters on; 0 when it is too short to be measured. */
const growthOf = (use: (text: string) => unknown, word: string, runs: number, from = small): number => {
  // The beginning keeps functions from leaving plain texts out.
  const text = (length: number) => `\u200bbearer ${word.repeat(Math.ceil(length / word.length))}`
  const [short, long] = [text(from), text(from * growth)]
  const later = timeOf(() => use(long), runs)
  return later < measurable
    ? 0
    : later /
        Math.max(
          0.3,
          timeOf(() => use(short), runs + 1)
        )
}

const wordOf = (random: Random): string =>
  Array.from({ length: 1 + random.below(4) }, () => parts[random.below(parts.length)] ?? "").join("")

/** Repeats random words of these parts: no function that reads a caller's text may take more than linear time. */
const slowTexts: Attack["play"] = async ({ count, random }) => {
  const broken: Array<string> = []
  const words = [
    "a",
    ...random.shuffled([...parts, ...Array.from({ length: 2 * parts.length }, () => wordOf(random))])
  ]
  for (const word of words.slice(0, Math.max(30, count / 25))) {
    // A collection of garbage disturbs short times; it does not disturb long ones as much.
    for (const [name, use] of Object.entries(functions))
      if (
        growthOf(use, word, 1) > most &&
        growthOf(use, word, 3) > most &&
        growthOf(use, word, 3, small * growth) > most
      )
        broken.push(`${name} takes more than linear time for repetitions of ${JSON.stringify(word)}`)
    // The probes of this process go on meanwhile.
    await new Promise((resolve) => setImmediate(resolve))
  }
  return broken
}

export const payloadAttacks: ReadonlyArray<Attack> = [
  { name: "bodies that are traps", play: playBodies },
  { name: "texts that are slow to search", play: slowTexts }
]
