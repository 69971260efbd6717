/** Which bodies each request schema accepts: rows of values for each field. */
import { describe, expect, it } from "vitest"
import { Either, ParseResult, Schema } from "effect"
import { ReportRequest } from "../../src/schema/Report.ts"
import { LoginRequest, LogoutRequest, RefreshRequest } from "../../src/schema/Session.ts"
import { TelemetryRequest } from "../../src/schema/Telemetry.ts"
import { SubscriptionRequest, TingRequest } from "../../src/schema/Ting.ts"

type Body = Readonly<Record<string, unknown>>

const bodies: Readonly<Record<string, readonly [Schema.Schema.AnyNoContext, Body]>> = {
  login: [LoginRequest, { slt: "oac_x" }],
  refresh: [RefreshRequest, { refresh_token: "ort_x" }],
  logout: [LogoutRequest, { token: "ort_x" }],
  subscription: [SubscriptionRequest, {}],
  ting: [TingRequest, { type: "music.trigger.fired", key: "si:deejay/1", data: {} }],
  report: [ReportRequest, { message: "Playback stops." }],
  attachment: [ReportRequest, { message: "Playback stops.", attachments: [{ name: "a.log", content: "" }] }],
  telemetry: [TelemetryRequest, { table: "musicclidaemon", events: [{}] }]
}

/** The paths of all problems. */
const problems = (name: string, value: unknown): ReadonlyArray<string> => {
  const [schema] = bodies[name] ?? []
  if (schema === undefined) throw new Error(name)
  return Either.match(Schema.decodeUnknownEither(schema)(value), {
    onLeft: (error) => ParseResult.ArrayFormatter.formatErrorSync(error).map(({ path }) => path.join(".")),
    onRight: () => []
  })
}

const missing = undefined

/** The body with another value in a field, or without it; of `attachment`, a field of the attachment. */
const bodyWith = (name: string, field: string, value: unknown): Body => {
  const [, body] = bodies[name] ?? []
  const changed = (whole: Body): Body => {
    const { [field]: _, ...others } = whole
    return value === missing ? others : { ...others, [field]: value }
  }
  if (name !== "attachment") return changed({ ...body })
  return { ...body, attachments: [changed({ name: "a.log", content: "" })] }
}
const pathOf = (name: string, field: string) => (name === "attachment" ? `attachments.0.${field}` : field)

const noObjects = [null, [], "x", 1]
const noTexts = [missing, null, 1, {}, ["x"]]
/** One code point, two UTF-16 units, four bytes: the length of a text counts code points, and that of a key bytes. */
const note = "\u{1f3b5}"
const characters = (codes: ReadonlyArray<number>) => codes.map((code) => `k${String.fromCharCode(code)}`)
const pull = "https://github.com/harbor/music/pull"
const attachments = (count: number) => Array.from({ length: count }, () => ({ name: "a", content: "" }))
/** An object of so many bytes of JSON. */
const filled = (bytes: number) => ({ text: "x".repeat(bytes - '{"text":""}'.length) })
const events = (count: number) => Array.from({ length: count }, () => ({}))

const noSlts = ["a b", "a\n", "\u007f", " ", "é", note]
const noMessages = [`${note.repeat(9)}${" ".repeat(20)}`, note.repeat(20_001)]
const keys = ["k".repeat(200), note.repeat(50), ...characters([0x20, 0x7e, 0xa0])]
const noKeys = ["", "k".repeat(201), `${note.repeat(50)}k`]
const pulls = [`${pull}/12`, "https://git.example:8443/harbor/music.app/pull/1"]
/** The last ones are no URL, though of its form: a port above 65535, and impossible addresses. */
const noPulls = ` http${pull.slice(5)}/12 ${pull}/0 ${pull}/12/files ${pull}/12?x=1 ${pull}/12#x
https://github.com/harbor/music/issues/12 https://user@github.com/harbor/music/pull/12
https://github.com/${"h".repeat(500)}/music/pull/12 https://github.com:99999/harbor/music/pull/12
https://256.256.256.256/harbor/music/pull/12 https://1.2.3.4.5/harbor/music/pull/12`.replaceAll("\n", " ")
const contexts = [null, missing, { any: [{ depth: null }] }, filled(32_768)]

const rows: ReadonlyArray<
  readonly [name: string, field: string, fits: ReadonlyArray<unknown>, misses: ReadonlyArray<unknown>]
> = [
  ["login", "slt", ["!", "~", "c:ana", "x".repeat(8_192)], ["", "x".repeat(8_193), ...noSlts, ...noTexts]],
  // Any text: a malformed refresh token is 401, and a logout of an unknown token succeeds (RFC 7009).
  ["refresh", "refresh_token", ["", "ort_", "oat_x", `ort_${"x".repeat(9_000)}`], noTexts],
  ["logout", "token", ["", "ORT_x", " ort_x", "x\nort_x", `oat_${"x".repeat(9_000)}`], noTexts],
  ["ting", "key", keys, [...noKeys, ...characters([0x00, 0x09, 0x0a, 0x1f, 0x7f, 0x80, 0x9f]), ...noTexts]],
  ["ting", "type", ["t", note.repeat(255)], ["", note.repeat(256), ...noTexts]],
  ["ting", "data", [{ deep: [{ any: null }] }], [missing, ...noObjects]],
  ["ting", "metadata", [missing, { x: { y: 1 } }], noObjects],
  ["report", "message", [note.repeat(10), ` \n${note.repeat(20_000)}\t `], [...noMessages, ...noTexts]],
  ["report", "pr", [null, missing, ...pulls], [...noPulls.split(" "), `${pull}/12\n`, 12]],
  ["report", "attachments", [null, missing, [], attachments(5)], [attachments(6), {}, "x"]],
  ["attachment", "name", ["n", note.repeat(120)], ["", note.repeat(121), missing, null, 1]],
  ["attachment", "content", ["", note.repeat(100_000)], [note.repeat(100_001), missing, null, 1]],
  ["attachment", "mime", [], ["text/plain"]],
  ["report", "context", contexts, [filled(32_769), { text: "é".repeat(16_384) }, [], "x", 1]],
  ["telemetry", "events", [events(1), events(40), [{ type: "x", data: [1, null] }]], [[], events(41), {}]],
  // Any value is an id, and the service itself checks which tables are open.
  ["telemetry", "events", ["", "1", null, 1, {}, []].map((id) => [{ id }]), [missing]],
  ["telemetry", "table", ["unknown"], noTexts]
]

describe("A request", () => {
  it.each(rows)("of %s accepts its %s", (name, field, fits, misses) => {
    for (const value of fits) expect(problems(name, bodyWith(name, field, value))).toEqual([])
    for (const value of misses) {
      const found = problems(name, bodyWith(name, field, value))
      expect(found, JSON.stringify(value)?.slice(0, 100)).toContain(pathOf(name, field))
    }
  })

  it.each(Object.keys(bodies))("of %s is an object without unknown fields", (name) => {
    expect(problems(name, bodies[name]?.[1])).toEqual([])
    expect(problems(name, { ...bodies[name]?.[1], for: "si:someone" })).toContain("for")
    for (const value of [undefined, true, [{}], ...noObjects]) expect(problems(name, value)).not.toEqual([])
  })
})
