/** The `Ting` port over Ting's HTTP API (notification-service.md 3). */
import * as HttpBody from "@effect/platform/HttpBody"
import * as HttpClient from "@effect/platform/HttpClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { version } from "../../schema/Release.ts"
import type { Proof } from "../../services/Iam.ts"
import { Settings } from "../../services/Settings.ts"
import { type PreparedCall, Ting } from "../../services/Ting.ts"
import { envelopeFailure } from "../upstream/ErrorEnvelope.ts"
import { makeUpstream } from "../upstream/UpstreamClient.ts"
import type { ResponseReader } from "../upstream/UpstreamResponse.ts"
import { readAcceptance, readRegistration } from "./TingResponses.ts"

/** Bytes (notification-service.md 1). */
const maxResponseBytes = 1024 * 1024

const utf8 = new TextEncoder()
const serialise = (fields: Readonly<Record<string, unknown>>): Uint8Array =>
  utf8.encode(JSON.stringify(fields))

/** Both testing headers, or neither. */
const testingHeaders = (proof: Proof): Readonly<Record<string, Redacted.Redacted>> =>
  Option.match(proof.testing, {
    onNone: () => ({}),
    onSome: ({ applicationSecret, environmentKey }) => ({
      iam_test_app_secret: applicationSecret,
      "x-testing-environment-key": environmentKey
    })
  })

export const HttpTing: Layer.Layer<Ting, never, Settings | HttpClient.HttpClient> = Layer.effect(
  Ting,
  Effect.gen(function* () {
    const { iam, ting: settings } = yield* Settings
    const client = yield* HttpClient.HttpClient
    const upstream = makeUpstream(client, {
      dependency: "ting",
      url: settings.url,
      timeoutSeconds: settings.timeoutSeconds,
      maxResponseBytes,
      failureOf: envelopeFailure({
        requestIdHeader: "ting-request-id",
        // The only one of Ting's three 503s that guarantees that nothing was stored (notification-service.md 8).
        notExecutedCodes: new Set(["dependency_unavailable"])
      })
    })

    const post = <A>(operation: string, call: PreparedCall, proof: Proof, read: ResponseReader<A>) =>
      Effect.suspend(() =>
        upstream({
          operation,
          method: "POST",
          path: proof.path,
          headers: {
            authorization: Redacted.make(`Bearer ${Redacted.value(proof.bearer)}`),
            "ting-client-version": version,
            ...testingHeaders(proof)
          },
          body: HttpBody.uint8Array(call.body, "application/json"),
          read
        })
      )

    return {
      prepareRegistration: ({ organisation, publicId }) => ({
        endpoint: "subscriptions.register",
        body: serialise({ org_id: organisation, app_id: iam.applicationId, for: publicId }),
        expected: publicId
      }),
      prepareTing: ({ data, key, metadata, organisation, recipient, type }) => ({
        endpoint: "tings.send",
        body: serialise({
          org_id: organisation,
          type,
          for: recipient,
          key,
          data,
          ...(metadata === undefined ? {} : { metadata })
        }),
        expected: key
      }),
      register: Effect.fn("Ting.register")((call, proof) =>
        post("register", call, proof, readRegistration(iam.applicationId, call.expected))
      ),
      send: Effect.fn("Ting.send")((call, proof) => post("send", call, proof, readAcceptance(call.expected)))
    }
  })
)
