/** Texts that are slow to search, and bodies that are traps for parsers. */
import { gzipSync } from "node:zlib"
import { parseJson } from "../../../src/http/body/StrictJson.ts"
import { anonymise, anonymiseAll } from "../../../src/services/Anonymisation.ts"
import { canonicalJson } from "../../../src/services/Digest.ts"
import { redact } from "../../../src/services/Redaction.ts"
import { normaliseText } from "../../../src/services/TextNormalisation.ts"
import type { Random } from "../../durability/Random.ts"
import type { Attack } from "./AttackedServer.ts"
import { ask, textOf } from "./Wire.ts"

/** Parts of texts that the patterns of the service begin to match, or fail to match late. */
const parts = [
  ...["\\", "\\\\", "u0061", "\\u0061", "\\ud83d", "\\x5f", "%25", "%", "%5f", "%c3%a9", "%u0061", "&amp;"],
  ...["&#", "0", "x5f;", "&colon", ";", "ask_", "oat_", "a", "A", "_", "-", ".", "+", "~", "=", "/", "a_"],
  ...[
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
    "@"
  ],
  ...[
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
    "ghp_"
  ],
  ...[
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
    "!"
  ],
  ...["://", "https:"]
]

/** Every function that searches a caller's text. */
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
const timeOf = (run: () => void, runs: number): number =>
  Math.min(
    ...Array.from({ length: runs }, () => {
      const began = process.cpuUsage()
      run()
      const { system, user } = process.cpuUsage(began)
      return (user + system) / 1_000
    })
  )

const small = 3_000
const growth = 4
/** A linear function takes 4 times as long, a quadratic one 16 times. */
const most = 9
/** Milliseconds below which a time is not compared. */
const measurable = 4

/** Whether the time grows faster than the length, from so many characters on. */
const isSlow = (use: (text: string) => unknown, word: string, runs: number, from = small): boolean => {
  // The beginning keeps functions from leaving plain texts out.
  const text = (length: number) => `\u200bbearer ${word.repeat(Math.ceil(length / word.length))}`
  const [short, long] = [text(from), text(from * growth)]
  const later = timeOf(() => use(long), runs)
  return (
    later >= measurable &&
    later >
      most *
        Math.max(
          0.3,
          timeOf(() => use(short), runs + 1)
        )
  )
}

const wordOf = (random: Random): string =>
  Array.from({ length: 1 + random.below(4) }, () => parts[random.below(parts.length)] ?? "").join("")

/** Repeats random words of these parts: no function may take more than linear time. */
const searchSlowTexts = async (count: number, random: Random): Promise<ReadonlyArray<string>> => {
  const broken: Array<string> = []
  const words = random.shuffled([...parts, ...Array.from({ length: 2 * parts.length }, () => wordOf(random))])
  for (const word of ["a", ...words].slice(0, Math.max(30, count / 25))) {
    // A collection of garbage disturbs short times; it does not disturb long ones as much.
    for (const [name, use] of Object.entries(functions))
      if (isSlow(use, word, 1) && isSlow(use, word, 3) && isSlow(use, word, 3, small * growth))
        broken.push(`${name} takes more than linear time for repetitions of ${JSON.stringify(word)}`)
    // The attacking process goes on meanwhile.
    await new Promise((resolve) => setImmediate(resolve))
  }
  return broken
}

const prototype = '{"__proto__":{"polluted":1}}'
/** Values in an event and in a report, and whether they are refused; the exact code has a table of its own in test/http. */
const traps: Readonly<Record<string, readonly [value: string, isRefused: boolean]>> = {
  "a prototype": [prototype, true],
  "a prototype inside": [`[${prototype}]`, true],
  "keys of every object": ['{"constructor":{"prototype":{"polluted":1}},"toString":1,"then":5}', false],
  "70 levels": ["[".repeat(70) + "]".repeat(70), true],
  "10,000 levels": ['[{"a":'.repeat(5_000) + "1" + "}]".repeat(5_000), true],
  "10,000 levels without an end": ["[".repeat(10_000), true],
  "a number of 20,000 digits": ["9".repeat(20_000), true],
  "a number with 20,000 places": [`0.${"1".repeat(20_000)}`, false],
  "2,000 equal keys": [`{${Array(2_000).fill('"a":1').join(",")}}`, false],
  "a lone surrogate": ['"\\ud800"', true]
}

const playTraps: Attack["play"] = async ({ server }) => {
  const broken: Array<string> = []
  const send = async (name: string, path: string, body: string, wanted: RegExp, headers = {}) => {
    const from = `127.0.12.${1 + (broken.length % 200)}`
    const key = { "Idempotency-Key": `trap-${Buffer.from(name).toString("hex").slice(0, 60)}` }
    const answer = await ask(server, { path, body, from, headers: { ...key, ...headers } })
    const said = `${answer?.status} ${textOf(answer).slice(0, 200)}`
    if (!wanted.test(said)) broken.push(`${name} at ${path}: ${said}`)
  }
  for (const [name, [value, isRefused]] of Object.entries(traps)) {
    const wanted = isRefused ? /^400 / : /^20[04] /
    await send(name, "/api/v1/telemetry", `{"table":"musicclidaemon","events":[{"a":${value}}]}`, wanted)
    await send(
      name,
      "/api/v1/reports",
      `{"message":"Playback stops after a seek.","context":{"a":${value}}}`,
      wanted
    )
  }
  const zipped = gzipSync(Buffer.alloc(16 * 1024 ** 2)).toString("latin1")
  for (const encoding of ["gzip", "br", "identity, gzip", "GZIP"])
    await send(encoding, "/api/v1/telemetry", zipped, /^415 /, { "Content-Encoding": encoding })
  const healthy = await ask(server, { path: "/healthz" })
  return textOf(healthy).includes("polluted") ? [...broken, "a prototype is polluted"] : broken
}

export const textAttacks: ReadonlyArray<Attack> = [
  { name: "texts that are slow to search", play: ({ count, random }) => searchSlowTexts(count, random) },
  { name: "bodies that are traps", play: playTraps }
]
