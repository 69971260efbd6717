import type * as Schema from "effect/Schema"

/** Refuses unknown fields at any depth and reports every problem at once, not only the first. */
export const strict = <A, I, R>(schema: Schema.Schema<A, I, R>): Schema.Schema<A, I, R> =>
  schema.annotations({ parseOptions: { onExcessProperty: "error", errors: "all" } })
