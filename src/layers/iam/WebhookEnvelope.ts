/** The event in a delivery whose signature is verified (identity-service.md 11.2 steps 6 to 8, 11.3, 11.4). */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { sha256 } from "../../services/Digest.ts"
import type { WebhookEvent } from "../../services/Iam.ts"
import { expect, parseJson } from "../upstream/UpstreamResponse.ts"
import { Uuid } from "./IamSchemas.ts"

type JsonObject = Readonly<Record<string, unknown>>

const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

// Declared instead of Schema.Record, so that decoding does not copy the value.
const JsonObject = Schema.declare(isObject)

const PositiveInt = Schema.Int.pipe(Schema.positive())

/** RFC 3339 with any offset and an optional fraction. */
const Rfc3339 = Schema.String.pipe(
  Schema.pattern(/^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:[Zz]|[+-]\d{2}:\d{2})$/),
  Schema.filter((text) => !Number.isNaN(Date.parse(text)))
)

const eventFields = {
  spec_version: Schema.Literal("1.0"),
  event_id: Uuid,
  event_type: Schema.String.pipe(Schema.pattern(/^(?:[a-z][a-z0-9_]*\.)+v[1-9]\d*$/)),
  occurred_at: Rfc3339,
  aggregate: JsonObject
}

const Aggregate = Schema.Struct({
  type: Schema.NonEmptyString,
  // A UUID, or since 4.0 the text of an identity: `carbon.updated.v1` has "c:ana" (identity-service.md 11.2).
  id: Schema.NonEmptyString,
  version: PositiveInt
})

/** Unknown extra members are tolerated. */
const Production = Schema.Struct({
  ...eventFields,
  organization_id: Schema.optional(Schema.NullOr(Uuid)),
  data: JsonObject
})

/** No other members at any of the three levels; `environment_id` and `generation` come together or not at all. */
const Test = Schema.Struct({
  test: Schema.Struct({
    testing_key: Schema.String.pipe(Schema.pattern(/^[A-Za-z0-9]{32}$/)),
    metadata: Schema.Struct({
      ...eventFields,
      organization_id: Schema.NullOr(Uuid),
      environment_id: Schema.optionalWith(Uuid, { exact: true }),
      generation: Schema.optionalWith(PositiveInt, { exact: true })
    }).pipe(
      Schema.filter(
        ({ environment_id, generation }) => (environment_id === undefined) === (generation === undefined)
      )
    ),
    data: JsonObject
  })
})

const decodeProduction = Schema.decodeUnknownEither(Production)
const decodeTest = Schema.decodeUnknownEither(Test, { onExcessProperty: "error" })
const decodeAggregate = Schema.decodeUnknownEither(Aggregate)

type Read<A> = Either.Either<A, string>

const aggregateOf = (aggregate: JsonObject): Read<WebhookEvent["aggregate"]> =>
  Either.mapLeft(decodeAggregate(aggregate), () => "aggregate")

const production = (value: JsonObject): Read<WebhookEvent> =>
  Either.gen(function* () {
    const event = yield* Either.mapLeft(decodeProduction(value), () => "production envelope")
    return {
      plane: { _tag: "Production" },
      eventId: event.event_id,
      eventType: event.event_type,
      occurredAt: event.occurred_at,
      organisationUuid: Option.fromNullable(event.organization_id),
      aggregate: yield* aggregateOf(event.aggregate),
      data: event.data
    }
  })

const testing = (value: JsonObject): Read<WebhookEvent> =>
  Either.gen(function* () {
    const { test } = yield* Either.mapLeft(decodeTest(value), () => "testing envelope")
    const { metadata } = test
    // The aggregate may repeat these members, but not contradict them.
    yield* expect(
      (["environment_id", "generation"] as const).every(
        (name) => !Object.hasOwn(metadata.aggregate, name) || metadata.aggregate[name] === metadata[name]
      ),
      "environment of the aggregate"
    )
    return {
      plane: {
        _tag: "Testing",
        environmentId: Option.fromNullable(metadata.environment_id),
        keyDigest: sha256(test.testing_key)
      },
      eventId: metadata.event_id,
      eventType: metadata.event_type,
      occurredAt: metadata.occurred_at,
      organisationUuid: Option.fromNullable(metadata.organization_id),
      aggregate: yield* aggregateOf(metadata.aggregate),
      data: test.data
    }
  })

/** The event in a verified body, or the name of the failed step. `eventId` comes from the header. */
export const readEvent = (body: Uint8Array, eventId: string): Either.Either<WebhookEvent, string> =>
  Either.gen(function* () {
    const value = yield* Either.mapLeft(parseJson(body), () => "JSON")
    if (!isObject(value)) return yield* Either.left("JSON object")
    const event = yield* Object.hasOwn(value, "test") ? testing(value) : production(value)
    yield* expect(event.eventId === eventId, "event id")
    return event
  })
