/** The `Ting` port over Ting's HTTP API (notification-service.md 3). */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { version } from "../../schema/Release.ts"
import type { Proof } from "../../services/Iam.ts"
import { Settings } from "../../services/Settings.ts"
import { type PreparedCall, Ting } from "../../services/Ting.ts"
import { traced } from "../../services/Tracing.ts"
import { envelopeFailure } from "../upstream/ErrorEnvelope.ts"
import { makeUpstream } from "../upstream/UpstreamClient.ts"
import { jsonBody } from "../upstream/UpstreamRequest.ts"
import type { ResponseReader } from "../upstream/UpstreamResponse.ts"
import { UpstreamTransport } from "../upstream/UpstreamTransport.ts"
import { readAcceptance, readRegistration } from "./TingResponses.ts"

/** Bytes (notification-service.md 1). */
const maxResponseBytes = 1024 * 1024

const utf8 = new TextEncoder()
const serialise = (fields: Readonly<Record<string, unknown>>): Uint8Array =>
  utf8.encode(JSON.stringify(fields))

/** Both testing headers, or neither. */
const testingHeaders = (proof: Proof): Readonly<Record<string, string>> =>
  Option.match(proof.testing, {
    onNone: () => ({}),
    onSome: ({ applicationSecret, environmentKey }) => ({
      iam_test_app_secret: Redacted.value(applicationSecret),
      "x-testing-environment-key": Redacted.value(environmentKey)
    })
  })

export const HttpTing: Layer.Layer<Ting, never, Settings | UpstreamTransport> = Layer.effect(
  Ting,
  Effect.gen(function* () {
    const { iam, ting: settings } = yield* Settings
    const { send } = yield* UpstreamTransport
    const upstream = makeUpstream(send, {
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

    const post = <A>(
      operation: "register" | "send",
      call: PreparedCall,
      proof: Proof,
      read: ResponseReader<A>
    ) =>
      traced(`Ting.${operation}`)(
        upstream({
          operation,
          method: "POST",
          path: proof.path,
          headers: {
            authorization: `Bearer ${Redacted.value(proof.bearer)}`,
            "ting-client-version": version,
            ...testingHeaders(proof)
          },
          body: jsonBody(call.body),
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
      register: (call, proof) =>
        post("register", call, proof, readRegistration(iam.applicationId, call.expected)),
      send: (call, proof) => post("send", call, proof, readAcceptance(call.expected))
    }
  })
)
