/**
 * Headers of single calls. The tags in Middleware.ts check their shapes before the body, so these schemas accept any
 * text and only describe the shapes to the document.
 */
import * as Schema from "effect/Schema"
import { idempotencyKeyPattern, organisationPattern } from "../../schema/Patterns.ts"
import { placeholders } from "../openapi/Examples.ts"

/** Any text when decoding; the given shape in the document. */
const header = (jsonSchema: {
  readonly description: string
  readonly examples: ReadonlyArray<string>
  readonly minLength?: number
  readonly maxLength?: number
  readonly pattern?: string
}) => Schema.String.annotations({ jsonSchema: { type: "string", ...jsonSchema } })

const key = header({
  description:
    "16 to 255 visible ASCII characters. A retry with the same key replays the result instead of doing the work twice.",
  examples: [placeholders.idempotencyKey],
  minLength: 16,
  maxLength: 255,
  pattern: idempotencyKeyPattern.source
})

const organisation = header({
  description: "Handle of the organisation that the bearer acts in; sent together with `Authorization`.",
  examples: ["acme"],
  minLength: 3,
  maxLength: 50,
  pattern: organisationPattern.source
})

/** For calls with an idempotency key. */
export const KeyHeaders = Schema.Struct({ "idempotency-key": key })

/** For calls of a signed-in actor. */
export const OrganisationHeaders = Schema.Struct({ "x-org-id": organisation })

/** For reports: a key, and an optional bearer. */
export const ReportHeaders = Schema.Struct({
  "idempotency-key": key,
  "x-org-id": Schema.optionalWith(organisation, { exact: true })
})

/** For telemetry, which browsers send with an origin. */
export const OriginHeaders = Schema.Struct({
  origin: Schema.optionalWith(
    header({
      description: "Sent by browsers; when present, it must be a configured web origin.",
      examples: ["https://music.example"]
    }),
    { exact: true }
  )
})
