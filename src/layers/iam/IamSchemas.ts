/** Pieces that several of IAM's answers have in common (identity-service.md 2). */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { Actor, type ActorType } from "../../schema/Identity.ts"
import { type UpstreamResponse, expect, type ResponseReader } from "../upstream/UpstreamResponse.ts"

/** Lower case, hyphenated. */
export const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
export const Uuid = Schema.String.pipe(Schema.pattern(uuidPattern))
export const nilUuid = "00000000-0000-0000-0000-000000000000"

/** An Option; absent and null are the same. */
export const omittable = <A, I>(schema: Schema.Schema<A, I>) =>
  Schema.optionalWith(schema, { as: "Option", nullable: true })

/** Names separated by spaces, ascending. */
export const parseScope = (scope: string): ReadonlyArray<string> =>
  [...new Set(scope.split(" "))].filter((name) => name !== "").sort()

/** The prefix of a public id says what its actor is. */
export const isOfType = (publicId: string, type: ActorType): boolean =>
  publicId.startsWith(type === "carbon" ? "c:" : "si:")

export const ConsistentActor = Actor.pipe(Schema.filter(({ public_id, type }) => isOfType(public_id, type)))

/** Refuses any success but the one that the contract names. */
export const expectStatus =
  <A>(status: number, read: ResponseReader<A>): ResponseReader<A> =>
  (answer: UpstreamResponse) =>
    Either.flatMap(expect(answer.status === status, `should be ${status}`), () => read(answer))
