/**
 * Verification of a delivery by the rules of the official verifier, and the event in it (identity-service.md 11.2 to 11.4). The signature
 * comes first: what it does not cover counts as forged, whatever else is wrong.
 */
import { createHmac, timingSafeEqual } from "node:crypto"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { bodyLimits } from "../../schema/BodyLimits.ts"
import { sha256 } from "../../services/Digest.ts"
import { type IamService, type WebhookEvent, WebhookRejected } from "../../services/Iam.ts"
import type { SettingsValues } from "../../services/Settings.ts"
import { expectAll, parseJson } from "../upstream/UpstreamResponse.ts"
import { Uuid, uuidPattern } from "./Answers.ts"

type Delivery = Parameters<IamService["verifyWebhook"]>[0]
type Secrets = SettingsValues["iam"]["webhookSecrets"]
/** What was read, or the name of the check that failed. */
type Checked<A> = Either.Either<A, string>

/** Seconds between sender and receiver, either way, inclusive. */
const tolerance = 300

const names = {
  eventId: "x-silicon-iam-event-id",
  timestamp: "x-silicon-iam-timestamp",
  keyVersion: "x-silicon-iam-key-version",
  signature: "x-silicon-iam-signature"
} as const

/** The value of a header that occurs exactly once. */
const single = (rawHeaders: ReadonlyArray<string>, name: string): Checked<string> => {
  const [value, second] = rawHeaders.filter(
    (_, index) => index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === name
  )
  return value === undefined || second !== undefined ? Either.left(name) : Either.right(value)
}

/** No sign, no leading zero, and a number that a double holds exactly. */
const positive = (text: string, name: string): Checked<number> =>
  /^[1-9]\d{0,14}$/.test(text) ? Either.right(Number(text)) : Either.left(name)

const isSigned = (
  secret: Redacted.Redacted,
  timestamp: string,
  body: Uint8Array,
  signature: string
): boolean =>
  timingSafeEqual(
    createHmac("sha256", Redacted.value(secret)).update(`${timestamp}.`).update(body).digest(),
    Buffer.from(signature.slice("v1=".length), "hex")
  )

/** The time at which one of the secrets signed these bytes, in seconds. Nothing is parsed, so that a forged delivery costs only its digest. */
const readSigningTime = (secrets: Secrets, { body, rawHeaders }: Delivery): Checked<number> =>
  Either.gen(function* () {
    const timestamp = yield* single(rawHeaders, names.timestamp)
    const keyVersion = yield* single(rawHeaders, names.keyVersion)
    const signature = yield* single(rawHeaders, names.signature)
    const signedAt = yield* positive(timestamp, names.timestamp)
    const version = yield* positive(keyVersion, names.keyVersion)
    yield* expectAll(
      [body.length <= bodyLimits.webhook, "size"],
      [/^v1=[0-9a-f]{64}$/.test(signature), names.signature]
    )
    const secret = yield* Either.fromNullable(secrets.get(version), () => "unknown key version")
    yield* expectAll([isSigned(secret, timestamp, body, signature), "signature"])
    return signedAt
  })

// Declared instead of Schema.Record, so that decoding does not copy the value.
const JsonObject = Schema.declare(
  (value): value is Readonly<Record<string, unknown>> =>
    typeof value === "object" && value !== null && !Array.isArray(value)
)
const PositiveInt = Schema.Int.pipe(Schema.positive())

const eventFields = {
  spec_version: Schema.Literal("1.0"),
  event_id: Uuid,
  event_type: Schema.String.pipe(Schema.pattern(/^(?:[a-z][a-z0-9_]*\.)+v[1-9]\d*$/)),
  /** RFC 3339 with any offset and an optional fraction. */
  occurred_at: Schema.String.pipe(
    Schema.pattern(/^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:[Zz]|[+-]\d{2}:\d{2})$/),
    Schema.filter((text) => !Number.isNaN(Date.parse(text)))
  ),
  aggregate: JsonObject
}

const Aggregate = Schema.Struct({
  type: Schema.NonEmptyString,
  // A UUID, or since 4.0 the text of an identity: `carbon.updated.v1` has "c:ana" (identity-service.md 11.2).
  id: Schema.NonEmptyString,
  version: PositiveInt
})

/** Unknown extra members are tolerated. */
const ProductionEvent = Schema.Struct({
  ...eventFields,
  organization_id: Schema.optional(Schema.NullOr(Uuid)),
  data: JsonObject
})

/** No other members at any of the three levels; `environment_id` and `generation` come together or not at all. */
const TestEvent = Schema.Struct({
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

const decodeProduction = Schema.decodeUnknownEither(ProductionEvent)
const decodeTest = Schema.decodeUnknownEither(TestEvent, { onExcessProperty: "error" })
const decodeAggregate = Schema.decodeUnknownEither(Aggregate)

/** Without its plane and aggregate. */
const toEvent = (event: Omit<typeof ProductionEvent.Type, "data" | "aggregate">) => ({
  eventId: event.event_id,
  eventType: event.event_type,
  occurredAt: event.occurred_at,
  organisationUuid: Option.fromNullable(event.organization_id)
})

/** The event in a verified body. `eventId` comes from the header. */
const readEvent = (body: Uint8Array, eventId: string): Checked<WebhookEvent> =>
  Either.gen(function* () {
    const value = yield* Either.mapLeft(parseJson(body), () => "JSON")
    if (!Schema.is(JsonObject)(value)) return yield* Either.left("JSON object")
    const isTest = Object.hasOwn(value, "test")
    const { test } = isTest
      ? yield* Either.mapLeft(decodeTest(value), () => "testing envelope")
      : { test: undefined }
    const { data, ...event } =
      test === undefined
        ? yield* Either.mapLeft(decodeProduction(value), () => "production envelope")
        : { ...test.metadata, data: test.data }
    // The aggregate may repeat these members, but not contradict them.
    const isRepeated = (name: "environment_id" | "generation") =>
      !Object.hasOwn(event.aggregate, name) || event.aggregate[name] === test?.metadata[name]
    yield* expectAll([
      test === undefined || (isRepeated("environment_id") && isRepeated("generation")),
      "environment of the aggregate"
    ])
    const aggregate = yield* Either.mapLeft(decodeAggregate(event.aggregate), () => "aggregate")
    yield* expectAll([event.event_id === eventId, "event id"])
    return {
      ...toEvent(event),
      aggregate,
      data,
      plane:
        test === undefined
          ? { _tag: "Production" }
          : {
              _tag: "Testing",
              environmentId: Option.fromNullable(test.metadata.environment_id),
              keyDigest: sha256(test.testing_key)
            }
    }
  })

/** The event of a delivery that was signed at a time; in seconds. */
const readSigned = ({ body, rawHeaders }: Delivery, signedAt: number, now: number): Checked<WebhookEvent> =>
  Either.gen(function* () {
    const eventId = yield* single(rawHeaders, names.eventId)
    yield* expectAll(
      [uuidPattern.test(eventId), names.eventId],
      [Math.abs(now - signedAt) <= tolerance, "age"]
    )
    return yield* readEvent(body, eventId)
  })

/** `secrets` by key version. The failure names the failed check and holds nothing of the delivery. */
export const makeWebhookVerifier =
  (secrets: Secrets): IamService["verifyWebhook"] =>
  (delivery) =>
    Effect.gen(function* () {
      const now = Math.floor((yield* Clock.currentTimeMillis) / 1_000)
      const rejectedAs = (signed: boolean) => (reason: string) => new WebhookRejected({ reason, signed })
      const signedAt = yield* Either.mapLeft(readSigningTime(secrets, delivery), rejectedAs(false))
      return yield* Either.mapLeft(readSigned(delivery, signedAt, now), rejectedAs(true))
    })
