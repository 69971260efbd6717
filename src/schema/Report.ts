import * as Schema from "effect/Schema"
import { about, described, hasLengthBetween, JsonObject, named, request, Text } from "./Fields.ts"

/** `https://<host>/<owner>/<repository>/pull/<number>`. */
const pullRequestPattern =
  /^https:\/\/[A-Za-z0-9.-]+(?::\d{1,5})?\/[A-Za-z0-9_.-]+\/[A-Za-z0-9_.-]+\/pull\/[1-9]\d{0,9}$/

const Attachment = named("Attachment", {
  name: Text(1, 120),
  content: about(Text(0, 100_000), "Text")
})

/** `null` is the same as absent for the optional fields, also when a retry is compared with its first attempt. */
export const ReportRequest = request("ReportRequest", {
  message: Schema.String.pipe(
    Schema.filter(
      (message) =>
        hasLengthBetween(10, 20_000, message.trim()) || "must be 10 to 20,000 characters after trimming"
    )
  ).annotations({
    jsonSchema: { minLength: 10 },
    description: "What happened, 10 to 20,000 characters after trimming"
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
  ).annotations({ description: "https URL of a related pull request" }),
  attachments: Schema.optional(Schema.NullOr(Schema.Array(Attachment).pipe(Schema.maxItems(5)))).annotations({
    description: "At most 5 texts, such as a log"
  }),
  context: Schema.optional(
    Schema.NullOr(
      JsonObject.pipe(
        Schema.filter(
          (context) =>
            Buffer.byteLength(JSON.stringify(context)) <= 32 * 1024 || "must be at most 32 KiB of JSON"
        )
      )
    )
  ).annotations({ description: "Any JSON object, at most 32 KiB" })
})
export type ReportRequest = typeof ReportRequest.Type

export const Report = named("Report", {
  id: described("Starts with `rep_`"),
  status: about(Schema.Literal("stored", "filed"), "`filed` once its issue exists in the tracker"),
  issue_url: Schema.NullOr(Schema.String),
  reporter: about(Schema.NullOr(Schema.String), "Your public id when you signed the report"),
  created_at: described("RFC 3339, UTC"),
  replayed: about(Schema.Boolean, "This key stored the same report before")
})
