/**
 * Verification of a delivery by the rules of the official verifier (identity-service.md 11.2). The signature comes first: what it
 * does not cover counts as forged, whatever else is wrong.
 */
import { createHmac, timingSafeEqual } from "node:crypto"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Redacted from "effect/Redacted"
import { bodyLimits } from "../../schema/BodyLimits.ts"
import { type IamService, type WebhookEvent, WebhookRejected } from "../../services/Iam.ts"
import type { SettingsValues } from "../../services/Settings.ts"
import { traced } from "../../services/Tracing.ts"
import { expect } from "../upstream/UpstreamResponse.ts"
import { uuidPattern } from "./IamSchemas.ts"
import { readEvent } from "./WebhookEnvelope.ts"

type Delivery = Parameters<IamService["verifyWebhook"]>[0]

/** Seconds between sender and receiver, either way, inclusive. */
const tolerance = 300

const names = {
  eventId: "x-silicon-iam-event-id",
  timestamp: "x-silicon-iam-timestamp",
  keyVersion: "x-silicon-iam-key-version",
  signature: "x-silicon-iam-signature"
} as const

/** The value of a header that occurs exactly once. */
const single = (rawHeaders: ReadonlyArray<string>, name: string): Either.Either<string, string> => {
  const values = rawHeaders.filter(
    (_, index) => index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === name
  )
  const [value, second] = values
  return value === undefined || second !== undefined ? Either.left(name) : Either.right(value)
}

/** No sign, no leading zero, and a number that a double holds exactly. */
const positive = (text: string, name: string): Either.Either<number, string> =>
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
const readSigningTime = (
  secrets: SettingsValues["iam"]["webhookSecrets"],
  { body, rawHeaders }: Delivery
): Either.Either<number, string> =>
  Either.gen(function* () {
    const timestamp = yield* single(rawHeaders, names.timestamp)
    const keyVersion = yield* single(rawHeaders, names.keyVersion)
    const signature = yield* single(rawHeaders, names.signature)
    const signedAt = yield* positive(timestamp, names.timestamp)
    const version = yield* positive(keyVersion, names.keyVersion)
    yield* expect(body.length <= bodyLimits.webhook, "size")
    yield* expect(/^v1=[0-9a-f]{64}$/.test(signature), names.signature)
    const secret = yield* Either.fromNullable(secrets.get(version), () => "unknown key version")
    yield* expect(isSigned(secret, timestamp, body, signature), "signature")
    return signedAt
  })

/** The event of a delivery that was signed at a time. */
const readSigned = (
  { body, rawHeaders }: Delivery,
  signedAt: number,
  nowSeconds: number
): Either.Either<WebhookEvent, string> =>
  Either.gen(function* () {
    const eventId = yield* single(rawHeaders, names.eventId)
    yield* expect(uuidPattern.test(eventId), names.eventId)
    yield* expect(Math.abs(nowSeconds - signedAt) <= tolerance, "age")
    return yield* readEvent(body, eventId)
  })

const verify = (
  secrets: SettingsValues["iam"]["webhookSecrets"],
  delivery: Delivery,
  nowSeconds: number
): Either.Either<WebhookEvent, WebhookRejected> =>
  readSigningTime(secrets, delivery).pipe(
    Either.mapLeft((reason) => new WebhookRejected({ reason, signed: false })),
    Either.flatMap((signedAt) =>
      Either.mapLeft(
        readSigned(delivery, signedAt, nowSeconds),
        (reason) => new WebhookRejected({ reason, signed: true })
      )
    )
  )

/** `secrets` by key version. The failure names the failed step and holds nothing of the delivery. */
export const makeWebhookVerifier =
  (secrets: SettingsValues["iam"]["webhookSecrets"]): IamService["verifyWebhook"] =>
  (delivery) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => verify(secrets, delivery, Math.floor(now / 1_000))).pipe(
      traced("Iam.verifyWebhook")
    )
