import { HttpApiDecodeError } from "@effect/platform/HttpApiError"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { toFields } from "../../../src/http/body/ValidationErrors.ts"
import { ReportRequest } from "../../../src/schema/Report.ts"
import { LoginRequest, LogoutRequest, RefreshRequest } from "../../../src/schema/Session.ts"
import { TelemetryRequest } from "../../../src/schema/Telemetry.ts"
import { SubscriptionRequest, TingRequest } from "../../../src/schema/Ting.ts"

const fields = (schema: Schema.Schema.AnyNoContext, input: unknown) =>
  Either.match(Schema.decodeUnknownEither(schema)(input), {
    onLeft: (error) => toFields(Effect.runSync(HttpApiDecodeError.fromParseError(error)).issues),
    onRight: () => []
  })

const secret = "s3cr3t-value"

describe("The problem of an input", () => {
  it.each<[string, Schema.Schema.AnyNoContext, unknown, string, string]>([
    ["a missing field", LoginRequest, {}, "slt", "is missing"],
    ["an unknown field", LoginRequest, { slt: "a", for: secret }, "for", "is not a known field"],
    [
      "an unknown field with the name of a credential",
      LoginRequest,
      { slt: "a", [`oat_${"a1B2".repeat(10)}`]: 1 },
      "(name not shown)",
      "is not a known field"
    ],
    [
      "an unknown field with control characters",
      LoginRequest,
      { slt: "a", "\u001b[31mred": 1 },
      "(name not shown)",
      "is not a known field"
    ],
    ["another type", RefreshRequest, { refresh_token: 7 }, "refresh_token", "must be a string"],
    ["null for a string", RefreshRequest, { refresh_token: null }, "refresh_token", "must be a string"],
    [
      "a form with its own message",
      LoginRequest,
      { slt: `${secret} x` },
      "slt",
      "must be 1 to 8192 visible ASCII characters"
    ],
    ["no object", LoginRequest, secret, "body", "must be an object"],
    ["null for the body", SubscriptionRequest, null, "body", "must be an object"],
    ["an array for the body", LoginRequest, [secret], "body", "must be an object"],
    [
      "an array for an object",
      TingRequest,
      { type: "a", key: "k", data: [] },
      "data",
      "must be any JSON object"
    ],
    ["an empty type", TingRequest, { type: "", key: "k", data: {} }, "type", "must be 1 to 255 characters"],
    ["too few events", TelemetryRequest, { table: "t", events: [] }, "events", "must hold 1 to 40 events"],
    ["no events", TelemetryRequest, { table: "t", events: secret }, "events", "must be an array"],
    [
      "an event that is no object",
      TelemetryRequest,
      { table: "t", events: [{}, secret] },
      "events.1",
      "must be an object"
    ],
    [
      "an unknown nested field",
      ReportRequest,
      { message: "x".repeat(10), attachments: [{ name: "a", content: "b", size: secret }] },
      "attachments.0.size",
      "is not a known field"
    ],
    [
      "a nullable field",
      ReportRequest,
      { message: "x".repeat(10), pr: secret },
      "pr",
      "must be the https URL of a pull request"
    ],
    [
      "a nullable list",
      ReportRequest,
      { message: "x".repeat(10), attachments: Array(6).fill({ name: "a", content: "b" }) },
      "attachments",
      "must be an array of at most 5 item(s)"
    ],
    [
      "a nullable object",
      ReportRequest,
      { message: "x".repeat(10), context: secret },
      "context",
      "must be an object"
    ],
    [
      "a short message",
      ReportRequest,
      { message: `  ${"x".repeat(9)} ` },
      "message",
      "must be 10 to 20,000 characters after trimming"
    ]
  ])("%s", (_, schema, input, path, problem) => {
    expect(fields(schema, input)).toEqual([{ path, problem }])
  })

  it("names every problem, one for each field", () => {
    expect(
      fields(TingRequest, { type: 1, for: "a", org_id: "b" })
        .map(({ path }) => path)
        .sort()
    ).toEqual(["data", "for", "key", "org_id", "type"])
  })

  it("lists at most 20 fields, in a short text", () => {
    const hostile = Object.fromEntries(
      Array.from({ length: 5_000 }, (_, at) => [`f${at}`.padEnd(500, "x"), at])
    )
    const found = fields(LoginRequest, hostile)
    expect(found.length).toBeLessThanOrEqual(20)
    expect(JSON.stringify(found).length).toBeLessThan(5_000)
  })

  it("never contains a rejected value", () => {
    const wrong: ReadonlyArray<unknown> = [secret, [secret], { a: secret }, 40_414, { slt: [secret] }]
    for (const schema of [
      LoginRequest,
      LogoutRequest,
      RefreshRequest,
      TingRequest,
      TelemetryRequest,
      ReportRequest
    ]) {
      for (const value of wrong) {
        for (const field of [
          "slt",
          "token",
          "refresh_token",
          "type",
          "key",
          "data",
          "table",
          "events",
          "message",
          "pr",
          "context",
          "attachments"
        ]) {
          const text = JSON.stringify(fields(schema, { [field]: value }))
          expect(text).not.toContain(secret)
          expect(text).not.toContain("40414")
        }
      }
    }
  })
})
