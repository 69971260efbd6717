/** The bodies that cost most for their bytes, of those that one anonymous address may send, and plain ones of the same size. */
import { randomUUID } from "node:crypto"
import type { Outgoing } from "./Requests.ts"

/** A request of an address. `plain` is of the same size, without what makes it dear. */
type Request = (address: string, plain: boolean) => Outgoing

interface HostileKind {
  readonly name: string
  /** Times the cost of a plain body of the same size, at most. Near 1 where the body is refused before its content matters. */
  readonly ratio: number
  /** The status of each answer. */
  readonly status: number
  readonly request: Request
  /** What the same address sends first, with the requests that follow in mind. */
  readonly prepare: (address: string, plain: boolean) => ReadonlyArray<Outgoing>
  /** Each request comes from another address: the quota of one would refuse it. */
  readonly spread: boolean
}

const post = (address: string, path: string, body: string, key: string = randomUUID()): Outgoing => ({
  method: "POST",
  path,
  headers: { "content-type": "application/json", "idempotency-key": key, "x-forwarded-for": address },
  body
})

/** Short texts with a mark that may hide a credential. */
const marked = ["a\\b", "&#9;", "a%61", "aéb"]
const short = (at: number, plain: boolean): string => (plain ? "abcd" : (marked[at % marked.length] ?? ""))

/** An object of such texts, as names and as values. */
const shortTextsOf = (count: number, plain: boolean): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Array.from({ length: count / 2 }, (_, at) => [
      `${short(at, plain)}${at.toString(36)}`,
      short(at + 1, plain)
    ])
  )

const hidden = "a\\u0062 &#99; %64 é \\\\ &amp; %25 o\\u200bat "

/** Codes that end each other, and a form of a digit: each reader of such a text reads it in another way. */
const ambiguous = "\u00b2\\\\x75 "

/** A text of these marks, or a plain one that is as long on the wire; both with a credential at the end, whose place must be found. */
const long = (characters: number, plain: boolean, marks = hidden): string => {
  const token = " oat_a1B2a1B2a1B2a1B2a1B2"
  const text = marks.repeat(Math.ceil(characters / marks.length)).slice(0, characters - token.length)
  return (plain ? "a".repeat(Buffer.byteLength(JSON.stringify(text)) - 2) : text) + token
}

const telemetry =
  (eventOf: (plain: boolean) => object, count = 1): Request =>
  (address, plain) => {
    const events = Array.from({ length: count }, () => eventOf(plain))
    return post(address, "/api/v1/telemetry", JSON.stringify({ table: "musicclidaemon", events }))
  }

const shortTexts = telemetry(
  (plain) => ({ texts: shortTextsOf(100, plain), list: Object.values(shortTextsOf(200, plain)) }),
  40
)
const longText = telemetry((plain) => ({ text: long(53_000, plain) }))
const ambiguousText = telemetry((plain) => ({ text: long(41_000, plain, ambiguous) }))
/** A name that marks each of the values after it as a possible credential. */
const longHeaderName = telemetry((plain) => ({
  name: "x-".repeat(15_000) + (plain ? "authorisation" : "authorization"),
  value: Array(7_000).fill("a")
}))
const nest = (levels: number): unknown => (levels === 1 ? [] : [nest(levels - 1)])
const nesting = telemetry((plain) => ({ nested: Array(480).fill(plain ? "a".repeat(118) : nest(60)) }))

/** About 430 KB. */
const reportBody = (plain: boolean): string =>
  JSON.stringify({
    message: "The player stops after a seek near the end of a track.",
    attachments: Array.from({ length: 4 }, (_, at) => ({ name: `${at}.log`, content: long(89_000, plain) })),
    context: shortTextsOf(3_600, plain)
  })

const report = (address: string, plain: boolean, key?: string): Outgoing =>
  post(address, "/api/v1/reports", reportBody(plain), key)
/** Under the key of the report that an address stores and repeats. */
const repeated: Request = (address, plain) => report(address, plain, `repeated-report-of-${address}-${plain}`)

const mebibyte = 1_048_576

const webhook: Request = (address, plain) => {
  if (plain) return post(address, "/webhook", `{"a":"${"a".repeat(mebibyte - 10)}"}`)
  // Each object has a form of its own.
  const objects = Array.from({ length: 99_500 }, (_, at) => `{"${at.toString(36)}":0}`)
  return post(address, "/webhook", `{"a":[${objects.join(",")}]}`)
}

/** Most kinds are telemetry of one address, which is taken. */
const kind = (
  name: string,
  ratio: number,
  request: Request,
  more: Partial<HostileKind> = {}
): HostileKind => ({
  ...{ name, ratio, request, status: 204, prepare: () => [], spread: false },
  ...more
})

export const hostileKinds: ReadonlyArray<HostileKind> = [
  kind("telemetry, 60 KB in 8,000 short texts", 6, shortTexts),
  kind("telemetry, 60 KB in one text", 6, longText),
  kind("telemetry, 60 KB of codes that are read in three ways", 7, ambiguousText),
  kind("telemetry, 60 KB of a header's long name and many values", 6, longHeaderName),
  kind("telemetry, 60 KB of nested lists", 6, nesting),
  kind("report, 430 KB, stored", 5, report, { status: 200, spread: true }),
  kind("report, 430 KB, refused by its quota", 3, report, {
    status: 429,
    prepare: (address) =>
      Array.from({ length: 20 }, () =>
        post(address, "/api/v1/reports", JSON.stringify({ message: "A short report." }))
      )
  }),
  kind("report, 430 KB, a repetition of a stored one", 3, repeated, {
    status: 200,
    prepare: (address, plain) => [repeated(address, plain)]
  }),
  kind("webhook, 1 MiB, unsigned", 3, webhook, { status: 401, spread: true })
]
