/** What the schemas of requests and responses have in common. */
import * as Schema from "effect/Schema"

/** Refuses unknown fields at any depth, and stops at the first problem: a hostile body has one in two bytes. */
export const strictly = { parseOptions: { onExcessProperty: "error", errors: "first" } } as const

/** A struct with its name in the document. */
export const named = <const Fields extends Schema.Struct.Fields>(identifier: string, fields: Fields) =>
  Schema.Struct(fields).annotations({ identifier })

/** The strict schema of a request. */
export const request = <const Fields extends Schema.Struct.Fields>(identifier: string, fields: Fields) =>
  Schema.Struct(fields).annotations({ identifier, ...strictly })

/** Whether a text has `low` to `high` code points, both included. A pair of surrogates is one. */
export const hasLengthBetween = (low: number, high: number, text: string): boolean => {
  const length = text.length - (text.match(/[\uD800-\uDBFF][\uDC00-\uDFFF]/g) ?? []).length
  return length >= low && length <= high
}

/** A text of so many code points. */
export const Text = (minLength: number, maxLength: number) =>
  Schema.String.pipe(
    Schema.filter((text) => hasLengthBetween(minLength, maxLength, text), {
      message: () => `must be ${minLength} to ${maxLength.toLocaleString("en")} characters`,
      jsonSchema: { minLength, maxLength }
    })
  )

/** Values with their description in the document. */
export const about = <A, I>(schema: Schema.Schema<A, I>, description: string) =>
  schema.annotations({ description })
export const described = (description: string) => about(Schema.String, description)

/** Absent, but never `undefined` or null. */
export const mayBeAbsent = <S extends Schema.Schema.All>(schema: S) =>
  Schema.optionalWith(schema, { exact: true })
export const optionalText = mayBeAbsent(Schema.String)

export const JsonObject = Schema.Record({ key: Schema.String, value: Schema.Unknown })
