import * as Schema from "effect/Schema"
import { strict } from "./Strict.ts"
import { hasLengthBetween } from "./TextLength.ts"

const utf8 = new TextEncoder()

/** Bounds of a report: characters are code points; `context` is in bytes of its JSON. */
const reportLimits = {
  message: { low: 10, high: 20_000 },
  attachments: 5,
  attachmentName: 120,
  attachmentContent: 100_000,
  contextBytes: 32_768
} as const

/** `https://<host>/<owner>/<repository>/pull/<number>`. */
const pullRequestPattern =
  /^https:\/\/[A-Za-z0-9.-]+(?::\d{1,5})?\/[A-Za-z0-9_.-]+\/[A-Za-z0-9_.-]+\/pull\/[1-9]\d{0,9}$/

const Attachment = Schema.Struct({
  name: Schema.String.pipe(
    Schema.filter(
      (name) => hasLengthBetween(1, reportLimits.attachmentName, name) || "must be 1 to 120 characters"
    )
  ).annotations({ jsonSchema: { minLength: 1, maxLength: 120 }, examples: ["player.log"] }),
  content: Schema.String.pipe(
    Schema.filter(
      (content) =>
        hasLengthBetween(0, reportLimits.attachmentContent, content) || "must be at most 100,000 characters"
    )
  ).annotations({ jsonSchema: { maxLength: 100_000 }, description: "Text" })
}).annotations({ identifier: "Attachment" })

/** `null` is the same as absent for the optional fields, also when a retry is compared with its first attempt. */
export const ReportRequest = strict(
  Schema.Struct({
    message: Schema.String.pipe(
      Schema.filter(
        (message) =>
          hasLengthBetween(reportLimits.message.low, reportLimits.message.high, message.trim()) ||
          "must be 10 to 20,000 characters after trimming"
      )
    ).annotations({
      jsonSchema: { minLength: 10 },
      description: "What happened, 10 to 20,000 characters after trimming",
      examples: ["Playback stops after a seek near the end of a track."]
    }),
    pr: Schema.optional(
      Schema.NullOr(
        Schema.String.pipe(
          Schema.maxLength(500),
          Schema.filter(
            (pr) =>
              (pullRequestPattern.test(pr) && URL.canParse(pr)) || "must be the https URL of a pull request",
            { jsonSchema: { pattern: pullRequestPattern.source } }
          )
        )
      )
    ).annotations({
      description: "https URL of a related pull request",
      examples: ["https://github.com/harbor/music/pull/12"]
    }),
    attachments: Schema.optional(
      Schema.NullOr(Schema.Array(Attachment).pipe(Schema.maxItems(reportLimits.attachments)))
    ).annotations({ description: "At most 5 texts, such as a log" }),
    context: Schema.optional(
      Schema.NullOr(
        Schema.Record({ key: Schema.String, value: Schema.Unknown }).pipe(
          Schema.filter(
            (context) =>
              utf8.encode(JSON.stringify(context)).length <= reportLimits.contextBytes ||
              "must be at most 32 KiB of JSON"
          )
        )
      )
    ).annotations({ description: "Any JSON object, at most 32 KiB" })
  })
).annotations({ identifier: "ReportRequest" })
export type ReportRequest = typeof ReportRequest.Type

export const Report = Schema.Struct({
  id: Schema.String.annotations({ description: "Starts with `rep_`" }),
  status: Schema.Literal("stored", "filed").annotations({
    description: "`filed` once its issue exists in the tracker"
  }),
  issue_url: Schema.NullOr(Schema.String),
  reporter: Schema.NullOr(Schema.String).annotations({
    description: "Your public id when you signed the report"
  }),
  created_at: Schema.String.annotations({ description: "RFC 3339, UTC" }),
  replayed: Schema.Boolean.annotations({ description: "This key stored the same report before" })
}).annotations({ identifier: "Report" })
export type Report = typeof Report.Type
