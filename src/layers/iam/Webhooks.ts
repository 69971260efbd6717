/**
 * Verification of a delivery by the rules of the official verifier, and the event in it (identity-service.md 11.2 to 11.4). The signature
 * comes first: what it does not cover counts as forged, whatever else is wrong.
 */
import { createHmac, timingSafeEqual } from "node:crypto"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { bodyLimits } from "../../schema/BodyLimits.ts"
import { rfc3339Pattern } from "../../schema/Patterns.ts"
import { sha256 } from "../../services/Digest.ts"
import { type IamService, type WebhookEvent, WebhookRejected } from "../../services/Iam.ts"
import type { SettingsValues } from "../../services/Settings.ts"
import { expectAll, parseJson } from "../upstream/UpstreamResponse.ts"
import { canonicalUuid, Uuid } from "./Answers.ts"

type Delivery = Parameters<IamService["verifyWebhook"]>[0]
type Secrets = SettingsValues["iam"]["webhookSecrets"]
/** What was read, or the name of the check that failed. */
type Checked<A> = Either.Either<A, string>

/** Seconds between sender and receiver, either way, inclusive. */
const tolerance = 300

/** The value of a header that occurs exactly once, and has the form. `name` in lower case. */
const readHeader = ({ rawHeaders }: Delivery, name: string, form: RegExp): Checked<string> => {
  const [value = "", second] = rawHeaders.filter(
    (_, index) => index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === name
  )
  return second === undefined && form.test(value) ? Either.right(value) : Either.left(name)
}

/** No sign, no leading zero, and a number that a double holds exactly. */
const positivePattern = /^[1-9]\d{0,14}$/

/** The time at which one of the secrets signed these bytes, in seconds. Nothing is parsed, so that a forged delivery costs only its digest. */
const readSigningTime = (secrets: Secrets, delivery: Delivery): Checked<number> =>
  Either.gen(function* () {
    const { body } = delivery
    const timestamp = yield* readHeader(delivery, "x-silicon-iam-timestamp", positivePattern)
    const version = yield* readHeader(delivery, "x-silicon-iam-key-version", positivePattern)
    yield* expectAll([body.length <= bodyLimits.webhook, "size"])
    const signature = yield* readHeader(delivery, "x-silicon-iam-signature", /^v1=[0-9a-f]{64}$/)
    const secret = yield* Either.fromNullable(secrets.get(Number(version)), () => "unknown key version")
    const digest = createHmac("sha256", Redacted.value(secret)).update(`${timestamp}.`).update(body).digest()
    const given = Buffer.from(signature.slice("v1=".length), "hex")
    yield* expectAll([timingSafeEqual(digest, given), "signature"])
    return Number(timestamp)
  })

// Declared instead of Schema.Record, so that decoding does not copy the value.
const JsonObject = Schema.declare(Predicate.isReadonlyRecord)
const PositiveInt = Schema.Int.pipe(Schema.positive())
/** Such as a UUID, or `c:ana` for an identity (identity-service.md 11.2). An index of either database takes it. */
const Name = Schema.String.pipe(Schema.pattern(/^\P{Cc}{1,255}$/u))

const eventFields = {
  spec_version: Schema.Literal("1.0"),
  event_id: Uuid,
  event_type: Schema.String.pipe(Schema.pattern(/^(?:[a-z][a-z0-9_]*\.)+v[1-9]\d*$/)),
  occurred_at: Schema.String.pipe(
    Schema.pattern(rfc3339Pattern),
    Schema.filter((text) => !Number.isNaN(Date.parse(text)))
  ),
  aggregate: Schema.Struct(
    { type: Name, id: Name, version: PositiveInt },
    { key: Schema.String, value: Schema.Unknown }
  )
}

/** Unknown extra members are tolerated. */
const decodeProduction = Schema.decodeUnknownEither(
  Schema.Struct({
    ...eventFields,
    organization_id: Schema.optional(Schema.NullOr(Uuid)),
    data: JsonObject
  })
)

const agrees = (repeated: unknown, value: unknown): boolean => repeated === undefined || repeated === value

const TestMetadata = Schema.Struct({
  ...eventFields,
  organization_id: Schema.NullOr(Uuid),
  environment_id: Schema.optionalWith(Uuid, { exact: true }),
  generation: Schema.optionalWith(PositiveInt, { exact: true })
}).pipe(
  // The two come together or not at all. The aggregate may repeat them, but not contradict them.
  Schema.filter(
    ({ aggregate, environment_id, generation }) =>
      (environment_id === undefined) === (generation === undefined) &&
      agrees(aggregate.environment_id, environment_id) &&
      agrees(aggregate.generation, generation)
  )
)

/** No other members at any of the three levels. */
const decodeTest = Schema.decodeUnknownEither(
  Schema.Struct({
    test: Schema.Struct({
      testing_key: Schema.String.pipe(Schema.pattern(/^[A-Za-z0-9]{32}$/)),
      metadata: TestMetadata,
      data: JsonObject
    })
  }),
  { onExcessProperty: "error" }
)

const readEnvelope = (value: unknown) =>
  Either.gen(function* () {
    if (!Predicate.hasProperty(value, "test")) {
      const { data, ...event } = yield* Either.mapLeft(decodeProduction(value), () => "envelope")
      return { data, event, testing: Option.none() }
    }
    const { test } = yield* Either.mapLeft(decodeTest(value), () => "envelope")
    const environmentId = Option.fromNullable(test.metadata.environment_id)
    const testing = Option.some({ environmentId, keyDigest: sha256(test.testing_key) })
    return { data: test.data, event: test.metadata, testing }
  })

/** The event of a delivery that was signed at a time; in seconds. `eventId` comes from the header. */
const readEvent = (delivery: Delivery, signedAt: number, now: number): Checked<WebhookEvent> =>
  Either.gen(function* () {
    const eventId = yield* readHeader(delivery, "x-silicon-iam-event-id", canonicalUuid)
    yield* expectAll([Math.abs(now - signedAt) <= tolerance, "age"])
    const value = yield* Either.mapLeft(parseJson(delivery.body), () => "JSON")
    const { data, event, testing } = yield* readEnvelope(value)
    yield* expectAll([event.event_id === eventId, "event id"])
    return {
      eventId,
      eventType: event.event_type,
      occurredAt: event.occurred_at,
      organisationUuid: event.organization_id ?? null,
      aggregateType: event.aggregate.type,
      aggregateId: event.aggregate.id,
      aggregateVersion: event.aggregate.version,
      data,
      testing
    }
  })

/** `secrets` by key version. The failure names the failed check and holds nothing of the delivery. */
export const makeWebhookVerifier =
  (secrets: Secrets): IamService["verifyWebhook"] =>
  (delivery) =>
    Effect.gen(function* () {
      const now = Math.floor((yield* Clock.currentTimeMillis) / 1_000)
      const rejectedAs = (signed: boolean) => (reason: string) => new WebhookRejected({ reason, signed })
      const signedAt = yield* Either.mapLeft(readSigningTime(secrets, delivery), rejectedAs(false))
      return yield* Either.mapLeft(readEvent(delivery, signedAt, now), rejectedAs(true))
    })
