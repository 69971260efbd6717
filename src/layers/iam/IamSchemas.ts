/** Schemas that several of IAM's responses share (identity-service.md 2). */
import * as Schema from "effect/Schema"
import { Actor, type ActorType } from "../../schema/Identity.ts"

/** Lower case, hyphenated. */
export const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
export const Uuid = Schema.String.pipe(Schema.pattern(uuidPattern))
export const nilUuid = "00000000-0000-0000-0000-000000000000"

/** An Option; absent and null are the same. */
export const omittable = <A, I>(schema: Schema.Schema<A, I>) =>
  Schema.optionalWith(schema, { as: "Option", nullable: true })

/** Space-separated names, sorted, without duplicates. */
export const parseScope = (scope: string): ReadonlyArray<string> =>
  [...new Set(scope.split(" "))].filter((name) => name !== "").sort()

/** The prefix of a public id gives the type of its actor. */
export const isOfType = (publicId: string, type: ActorType): boolean =>
  publicId.startsWith(type === "carbon" ? "c:" : "si:")

export const ConsistentActor = Actor.pipe(Schema.filter(({ public_id, type }) => isOfType(public_id, type)))
