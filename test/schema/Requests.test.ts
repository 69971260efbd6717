import { assert, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Either from "effect/Either"
import * as JSONSchema from "effect/JSONSchema"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { ReportRequest } from "../../src/schema/Report.ts"
import { LoginRequest, LogoutRequest, RefreshRequest } from "../../src/schema/Session.ts"
import { TelemetryRequest } from "../../src/schema/Telemetry.ts"
import { SubscriptionRequest, TingRequest } from "../../src/schema/Ting.ts"

const problems = <A, I>(schema: Schema.Schema<A, I>, value: unknown): ReadonlyArray<string> =>
  Either.match(Schema.decodeUnknownEither(schema)(value), {
    onLeft: (error) =>
      ParseResult.ArrayFormatter.formatErrorSync(error).map(
        ({ path, message }) => `${path.join(".")}: ${message}`
      ),
    onRight: () => []
  })

const accepts = <A, I>(schema: Schema.Schema<A, I>, value: unknown) =>
  deepStrictEqual(problems(schema, value), [])

const refuses = <A, I>(schema: Schema.Schema<A, I>, value: unknown, path: string) =>
  assert.isTrue(
    problems(schema, value).some((problem) => problem.startsWith(`${path}:`)),
    `expected a problem at "${path}", got ${JSON.stringify(problems(schema, value))}`
  )

/** One code point, two UTF-16 units, four bytes. */
const note = "\u{1f3b5}"

const notObjects = [null, undefined, [], [{}], "text", 1, true]

describe("Every request body", () => {
  const bodies: ReadonlyArray<readonly [string, Schema.Schema.AnyNoContext, object]> = [
    ["login", LoginRequest, { slt: "oac_x" }],
    ["refresh", RefreshRequest, { refresh_token: "ort_x" }],
    ["logout", LogoutRequest, { token: "ort_x" }],
    ["subscription", SubscriptionRequest, {}],
    ["ting", TingRequest, { type: "music.trigger.fired", key: "si:deejay/1", data: {} }],
    ["report", ReportRequest, { message: "Playback stops." }],
    ["telemetry", TelemetryRequest, { table: "musicclidaemon", events: [{}] }]
  ]
  for (const [name, schema, body] of bodies) {
    it(`of ${name} refuses an unknown field`, () => {
      accepts(schema, body)
      refuses(schema, { ...body, for: "si:someone" }, "for")
    })

    it(`of ${name} must be an object`, () => {
      for (const value of notObjects) assert.isNotEmpty(problems(schema, value), JSON.stringify(value))
    })

    it(`of ${name} is documented as an object without further fields`, () => {
      const document = JSON.parse(JSON.stringify(JSONSchema.make(schema)))
      const found = document.$ref === undefined ? document : document.$defs[document.$ref.split("/").pop()]
      assert.strictEqual(found.type, "object")
      assert.strictEqual(found.additionalProperties, false)
    })
  }

  it("documents every field", () => {
    for (const [name, schema] of bodies) {
      const { $defs, $ref } = JSON.parse(JSON.stringify(JSONSchema.make(schema)))
      for (const [field, document] of Object.entries<{ description?: string }>(
        $defs[$ref.split("/").pop()].properties
      )) {
        const text = document.description ?? ""
        assert.match(text, /^(?!a string|an array)./, `${name}.${field}`)
      }
    }
  })

  it("reports all problems at once", () => {
    const found = problems(TingRequest, { type: "", key: "", data: [], one: 1, two: 2 })
    for (const path of ["type", "key", "data", "one", "two"]) {
      assert.isTrue(
        found.some((problem) => problem.startsWith(`${path}:`)),
        path
      )
    }
  })
})

describe("Login", () => {
  it("slt is 1 to 8192 visible ASCII characters", () => {
    for (const slt of ["!", "~", "c:ana", "x".repeat(8192)]) accepts(LoginRequest, { slt })
    for (const slt of ["", "x".repeat(8193), "a b", "a\n", "\u007f", "\u0020", "é", note, 1, null, ["x"]]) {
      refuses(LoginRequest, { slt }, "slt")
    }
    refuses(LoginRequest, {}, "slt")
  })
})

describe("Refresh", () => {
  it("accepts any string, so that a malformed token can be 401; a missing one or another type is 400", () => {
    for (const refresh_token of ["", "ort_", "oat_x", `ort_${"x".repeat(43)}`]) {
      accepts(RefreshRequest, { refresh_token })
    }
    refuses(RefreshRequest, {}, "refresh_token")
    for (const refresh_token of [null, 1, {}]) refuses(RefreshRequest, { refresh_token }, "refresh_token")
  })
})

describe("Logout", () => {
  it("accepts any string, because an unknown token counts as revoked (RFC 7009)", () => {
    for (const token of ["", "ort_", "ORT_x", "obo_x", " ort_x", "x\nort_x", `oat_${"x".repeat(9000)}`]) {
      accepts(LogoutRequest, { token })
    }
    refuses(LogoutRequest, {}, "token")
    for (const token of [null, 1, {}, ["ort_x"]]) refuses(LogoutRequest, { token }, "token")
  })
})

describe("Ting", () => {
  const ting = { type: "music.trigger.fired", key: "si:deejay/1", data: {} }

  it("key is 1 to 200 bytes of UTF-8, not characters", () => {
    accepts(TingRequest, { ...ting, key: "k" })
    accepts(TingRequest, { ...ting, key: "k".repeat(200) })
    accepts(TingRequest, { ...ting, key: "é".repeat(100) })
    accepts(TingRequest, { ...ting, key: note.repeat(50) })
    refuses(TingRequest, { ...ting, key: "" }, "key")
    refuses(TingRequest, { ...ting, key: "k".repeat(201) }, "key")
    refuses(TingRequest, { ...ting, key: `${"é".repeat(100)}k` }, "key")
    refuses(TingRequest, { ...ting, key: `${note.repeat(50)}k` }, "key")
  })

  it("key has no control characters", () => {
    for (const code of [0x00, 0x09, 0x0a, 0x1f, 0x7f, 0x80, 0x9f]) {
      refuses(TingRequest, { ...ting, key: `si:deejay/${String.fromCharCode(code)}` }, "key")
    }
    for (const code of [0x20, 0x7e, 0xa0]) {
      accepts(TingRequest, { ...ting, key: `si:deejay/${String.fromCharCode(code)}` })
    }
  })

  it("type is 1 to 255 characters", () => {
    accepts(TingRequest, { ...ting, type: "t".repeat(255) })
    // 510 units of UTF-16: lengths count code points.
    accepts(TingRequest, { ...ting, type: "𝄞".repeat(255) })
    refuses(TingRequest, { ...ting, type: "t".repeat(256) }, "type")
    refuses(TingRequest, { ...ting, type: "" }, "type")
  })

  it("data and metadata are objects with any content; metadata may be absent, not null", () => {
    accepts(TingRequest, { ...ting, data: { deep: [{ any: null }] }, metadata: { x: { y: 1 } } })
    for (const value of [null, [], "x", 1]) {
      refuses(TingRequest, { ...ting, data: value }, "data")
      refuses(TingRequest, { ...ting, metadata: value }, "metadata")
    }
    refuses(TingRequest, { type: ting.type, key: ting.key }, "data")
  })
})

describe("Report", () => {
  const report = { message: "Playback stops." }

  it("message has 10 to 20,000 characters after trimming, code points", () => {
    accepts(ReportRequest, { message: "x".repeat(10) })
    accepts(ReportRequest, { message: note.repeat(10) })
    accepts(ReportRequest, { message: note.repeat(20_000) })
    accepts(ReportRequest, { message: ` \n${"x".repeat(20_000)}\t ` })
    refuses(ReportRequest, { message: "x".repeat(9) }, "message")
    refuses(ReportRequest, { message: note.repeat(9) }, "message")
    refuses(ReportRequest, { message: `${"x".repeat(9)}${" ".repeat(20)}` }, "message")
    refuses(ReportRequest, { message: "x".repeat(20_001) }, "message")
    refuses(ReportRequest, {}, "message")
  })

  it("the optional fields may be null", () => {
    accepts(ReportRequest, { ...report, pr: null, attachments: null, context: null })
  })

  it("pr is the https URL of a pull request", () => {
    for (const pr of [
      "https://github.com/harbor/music/pull/12",
      "https://git.example:8443/harbor/music.app/pull/1"
    ]) {
      accepts(ReportRequest, { ...report, pr })
    }
    for (const pr of [
      "",
      "http://github.com/harbor/music/pull/12",
      "https://github.com/harbor/music/pull/0",
      "https://github.com/harbor/music/pull/12/files",
      "https://github.com/harbor/music/issues/12",
      "https://user@github.com/harbor/music/pull/12",
      "https://github.com/harbor/music/pull/12?x=1",
      "https://github.com/harbor/music/pull/12#x",
      "https://github.com/harbor/music/pull/12\n",
      `https://github.com/${"h".repeat(500)}/music/pull/12`,
      12
    ]) {
      refuses(ReportRequest, { ...report, pr }, "pr")
    }
  })

  it("pr must be a valid URL: no port above 65535 and no impossible address", () => {
    for (const pr of [
      "https://github.com:99999/harbor/music/pull/12",
      "https://256.256.256.256/harbor/music/pull/12",
      "https://1.2.3.4.5/harbor/music/pull/12"
    ]) {
      refuses(ReportRequest, { ...report, pr }, "pr")
    }
  })

  it("attachments are at most 5, with a name of 1 to 120 and a text of at most 100,000 code points", () => {
    const attachment = { name: "player.log", content: "" }
    accepts(ReportRequest, { ...report, attachments: [] })
    accepts(ReportRequest, { ...report, attachments: Array.from({ length: 5 }, () => attachment) })
    refuses(
      ReportRequest,
      { ...report, attachments: Array.from({ length: 6 }, () => attachment) },
      "attachments"
    )
    const one = (change: object) => ({ ...report, attachments: [{ ...attachment, ...change }] })
    accepts(ReportRequest, one({ name: note.repeat(120), content: note.repeat(100_000) }))
    refuses(ReportRequest, one({ name: "" }), "attachments.0.name")
    refuses(ReportRequest, one({ name: "n".repeat(121) }), "attachments.0.name")
    refuses(ReportRequest, one({ content: "x".repeat(100_001) }), "attachments.0.content")
    refuses(ReportRequest, one({ content: null }), "attachments.0.content")
  })

  it("an attachment has no unknown field", () => {
    const attachment = { name: "player.log", content: "", mime: "text/plain" }
    refuses(ReportRequest, { ...report, attachments: [attachment] }, "attachments.0.mime")
  })

  it("context is an object of any shape, at most 32,768 bytes of JSON", () => {
    const filled = (bytes: number) => ({ text: "x".repeat(bytes - '{"text":""}'.length) })
    accepts(ReportRequest, { ...report, context: { any: [{ depth: null }] } })
    accepts(ReportRequest, { ...report, context: filled(32_768) })
    refuses(ReportRequest, { ...report, context: filled(32_769) }, "context")
    refuses(ReportRequest, { ...report, context: { text: "é".repeat(16_384) } }, "context")
    for (const context of [[], "x", 1]) refuses(ReportRequest, { ...report, context }, "context")
  })
})

describe("Telemetry", () => {
  const batch = (...events: ReadonlyArray<unknown>) => ({ table: "musicclidaemon", events })

  it("accepts 1 to 40 events", () => {
    accepts(TelemetryRequest, batch(...Array.from({ length: 40 }, () => ({}))))
    refuses(TelemetryRequest, batch(), "events")
    refuses(TelemetryRequest, batch(...Array.from({ length: 41 }, () => ({}))), "events")
  })

  it("an event is a JSON object of any shape", () => {
    accepts(TelemetryRequest, batch({ type: "playback", data: { deep: [1, null] }, anything: true }))
    for (const event of [null, [], "x", 1]) refuses(TelemetryRequest, batch({}, event), "events.1")
  })

  it("accepts any value as id", () => {
    for (const id of ["01990c6e-5f0a-7c1e-8d3b-2a4f6b8c0d1e", "", "1", null, 1, {}, []]) {
      accepts(TelemetryRequest, batch({ id }))
    }
  })

  it("accepts any text as table; the service checks which tables are open", () => {
    accepts(TelemetryRequest, { table: "unknown", events: [{}] })
    refuses(TelemetryRequest, { events: [{}] }, "table")
  })
})
