/** Checks that IAM is reachable, agrees with our clock, accepts our secret and lists Ting's endpoints. Spends nothing. */
import type { HttpClient } from "@effect/platform/HttpClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { SettingsValues } from "../../services/Settings.ts"
import { makeIamCall } from "../iam/IamCall.ts"
import { envelopeFailure } from "../upstream/ErrorEnvelope.ts"
import { makeUpstream } from "../upstream/Upstream.ts"
import { readJson } from "../upstream/UpstreamResponse.ts"
import {
  type Check,
  callTimeoutSeconds,
  type Finding,
  fail,
  fixOfCall,
  pass,
  skip,
  summarizeFailure,
  warn
} from "./Finding.ts"

const Version = Schema.Struct({
  service: Schema.Literal("silicon-iam"),
  selected_api_version: Schema.Literal("v1"),
  build: Schema.optional(Schema.String.pipe(Schema.pattern(/^[\w.+-]{1,64}$/)))
})
const Inactive = Schema.Struct({ active: Schema.Literal(false) })
const Catalogue = Schema.Struct({
  endpoints: Schema.Array(Schema.Struct({ endpoint_id: Schema.String }))
})

const needed = ["subscriptions.register", "tings.send"]

/** Well formed and never issued: IAM answers `active: false` to an authorised caller (identity-service.md 6). */
const unknownToken = `oat_${"A".repeat(43)}`

/** Seconds: signatures and webhooks are refused from 60 and 300 on (identity-service.md 10.2, 11.2). */
const skew = { warn: 5, fail: 60 }

/** The verdict about the seconds that IAM's clock is ahead of this machine's, or behind when negative. */
export const clockFinding = (aheadSeconds: number): Finding => {
  const distance = Math.abs(aheadSeconds)
  const found =
    distance <= 1
      ? "within a second of IAM's"
      : `${distance} seconds ${aheadSeconds > 0 ? "ahead of" : "behind"} IAM's`
  const fix = "set the clock of this machine, and synchronise it with a time server (NTP)"
  if (distance > skew.fail) return fail("clock", found, fix)
  return distance > skew.warn ? warn("clock", found, fix) : pass("clock", found)
}

export const checkIam = (
  client: HttpClient,
  { iam: settings }: Pick<SettingsValues, "iam">,
  secretBroken: boolean
): Check => {
  const iam = { ...settings, timeoutSeconds: Math.min(settings.timeoutSeconds, callTimeoutSeconds) }
  const call = makeIamCall(client, iam)
  const credentials = { secret: iam.applicationSecret, testing: false }
  const addressFix = "set MUSIC_IAM_URL to the address of IAM, and allow this machine to connect to it"

  // Sent first, without the secret: it identifies the other side as IAM.
  const identify = makeUpstream(client, {
    dependency: "iam",
    url: iam.url,
    timeoutSeconds: iam.timeoutSeconds,
    maxResponseBytes: 65_536,
    failureOf: envelopeFailure({ requestIdHeader: "x-request-id" })
  })({
    operation: "check",
    method: "GET",
    path: "/api/version",
    headers: { "silicon-iam-supported-api-versions": "v1" },
    read: (answer) => Either.map(readJson(Version)(answer), ({ build }) => ({ build, date: answer.date }))
  })

  const secret = call(credentials, {
    operation: "check",
    method: "POST",
    path: "/oauth/introspect",
    form: { token: unknownToken, token_type_hint: "access_token" },
    read: readJson(Inactive)
  }).pipe(
    Effect.match({
      onSuccess: () => pass("iam secret", `IAM accepts it for the application ${iam.applicationId}`),
      onFailure: (failure) =>
        failure._tag === "Refused" && (failure.status === 401 || failure.status === 403)
          ? fail(
              "iam secret",
              `IAM refuses it: ${summarizeFailure(failure)}`,
              `set MUSIC_IAM_APP_SECRET to the secret of the application ${iam.applicationId} (MUSIC_IAM_APP_ID), or create a new one at IAM`
            )
          : warn("iam secret", `not verifiable now: ${summarizeFailure(failure)}`, "run the check again")
    })
  )

  const catalogue = call(credentials, {
    operation: "check",
    method: "GET",
    path: "/obo-access/applications/ting/endpoints",
    read: readJson(Catalogue)
  }).pipe(
    Effect.match({
      onSuccess: ({ endpoints }) => {
        const missing = needed.filter((id) => !endpoints.some(({ endpoint_id }) => endpoint_id === id))
        return missing.length === 0
          ? pass("ting at iam", "IAM lists the endpoints that tings need")
          : fail(
              "ting at iam",
              `IAM does not list ${missing.join(" and ")} for ting`,
              "ask the operator of Ting to publish these endpoints at this IAM"
            )
      },
      onFailure: (failure) =>
        failure._tag === "Refused" && failure.status === 404
          ? fail(
              "ting at iam",
              "this IAM has no application ting",
              "set MUSIC_IAM_URL to the IAM that Ting uses"
            )
          : warn("ting at iam", `not verifiable now: ${summarizeFailure(failure)}`, "run the check again")
    })
  )

  return Effect.gen(function* () {
    const asked = yield* Clock.currentTimeMillis
    const identity = yield* Effect.either(identify)
    const now = yield* Clock.currentTimeMillis
    if (Either.isLeft(identity)) {
      const failure = identity.left
      const found =
        failure._tag === "NotExecuted"
          ? `no response from ${iam.url} (${failure.reason})`
          : `the service at ${iam.url} is not IAM: ${summarizeFailure(failure)}`
      return [
        fail("iam", found, fixOfCall(failure, addressFix)),
        skip("clock", "IAM tells no time"),
        skip("iam secret", "sent only to IAM"),
        skip("ting at iam", "IAM cannot be reached")
      ]
    }
    const { build, date } = identity.right
    const reached = pass("iam", `reached at ${iam.url}${build === undefined ? "" : `, version ${build}`}`)
    const clock = Option.match(Option.fromNullable(date), {
      onNone: () => skip("clock", "IAM tells no time"),
      // `Date` is cut to the second.
      onSome: (answeredAt) => clockFinding(Math.round(((asked + now) / 2 - (answeredAt + 500)) / 1_000))
    })
    if (secretBroken)
      return [
        reached,
        clock,
        skip("iam secret", "MUSIC_IAM_APP_SECRET is not valid"),
        skip("ting at iam", "needs the secret")
      ]
    const known = yield* secret
    const listed = known.status === "PASS" ? yield* catalogue : skip("ting at iam", "needs the secret")
    return [reached, clock, known, listed]
  })
}
