/** The `Ting` port over Ting's HTTP API, with the checks before a response is trusted (notification-service.md 3). */
import * as HttpBody from "@effect/platform/HttpBody"
import { HttpClient } from "@effect/platform/HttpClient"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { version } from "../../schema/Release.ts"
import type { SentTing, Subscription } from "../../schema/Ting.ts"
import type { Proof } from "../../services/Iam.ts"
import { Settings } from "../../services/Settings.ts"
import { type PreparedCall, Ting } from "../../services/Ting.ts"
import { envelopeFailure } from "../upstream/ErrorEnvelope.ts"
import { makeUpstream } from "../upstream/Upstream.ts"
import { expectStatus, type ResponseReader, readJson } from "../upstream/UpstreamResponse.ts"

const utf8 = new TextEncoder()
const serialise = (fields: object): Uint8Array => utf8.encode(JSON.stringify(fields))

const readGrant = readJson(
  Schema.Struct({
    id: Schema.String.pipe(Schema.pattern(/^sub_[\x21-\x7e]{1,200}$/)),
    app_id: Schema.String,
    for: Schema.String,
    active: Schema.Literal(true)
  })
)

/** 201 for a new or reactivated grant, 200 for an active one. */
const readRegistration = (applicationId: string, recipient: string): ResponseReader<Subscription> =>
  expectStatus([200, 201], (response) =>
    Either.filterOrLeft(
      readGrant(response),
      (grant) => grant.app_id === applicationId && grant.for === recipient,
      () => "is for another application or recipient"
    )
  )

const readTing = readJson(
  Schema.Struct({
    id: Schema.String.pipe(Schema.pattern(/^msg_[\x21-\x7e]{1,200}$/)),
    // Parsed, not matched: the server writes six fractional digits, its documentation shows none.
    created_at: Schema.String.pipe(Schema.filter((text) => !Number.isNaN(Date.parse(text)))),
    status: Schema.Literal("accepted"),
    key: Schema.String,
    silent: Schema.Boolean
  })
)

/** 202 for a first acceptance, 200 for a replay of it. */
const readAcceptance = (key: string): ResponseReader<SentTing> =>
  expectStatus([200, 202], (response) =>
    Either.filterOrLeft(
      Either.map(readTing(response), ({ status: _, ...ting }) => ({
        ...ting,
        replayed: response.status === 200
      })),
      (ting) => ting.key === key,
      () => "is for another key"
    )
  )

/** Both testing headers, or neither. */
const testingHeaders = (proof: Proof): Readonly<Record<string, string>> =>
  Option.match(proof.testing, {
    onNone: () => ({}),
    onSome: ({ app_secret, iam_test_key }) => ({
      iam_test_app_secret: Redacted.value(app_secret),
      "x-testing-environment-key": Redacted.value(iam_test_key)
    })
  })

export const HttpTing: Layer.Layer<Ting, never, Settings | HttpClient> = Layer.effect(
  Ting,
  Effect.gen(function* () {
    const { iam, ting: settings } = yield* Settings
    const upstream = makeUpstream(yield* HttpClient, {
      dependency: "ting",
      url: settings.url,
      timeoutSeconds: 15,
      // notification-service.md 1.
      maxResponseBytes: 1024 * 1024,
      failureOf: envelopeFailure({
        requestIdHeader: "ting-request-id",
        // The only one of Ting's three 503s that guarantees that nothing was stored (notification-service.md 8).
        notExecutedCode: "dependency_unavailable"
      })
    })

    const post = <A>(
      operation: "register" | "send",
      call: PreparedCall,
      proof: Proof,
      read: ResponseReader<A>
    ) =>
      upstream({
        operation,
        method: "POST",
        path: proof.path,
        headers: {
          authorization: `Bearer ${Redacted.value(proof.bearer)}`,
          "ting-client-version": version,
          ...testingHeaders(proof)
        },
        body: HttpBody.uint8Array(call.body, "application/json"),
        read
      })

    return {
      prepareRegistration: ({ organisation, publicId }) => ({
        endpoint: "subscriptions.register",
        body: serialise({ org_id: organisation, app_id: iam.applicationId, for: publicId }),
        expected: publicId
      }),
      prepareTing: ({ data, key, metadata, organisation, recipient, type }) => ({
        endpoint: "tings.send",
        // JSON leaves out a member that is undefined.
        body: serialise({ org_id: organisation, type, for: recipient, key, data, metadata }),
        expected: key
      }),
      register: (call, proof) =>
        post("register", call, proof, readRegistration(iam.applicationId, call.expected)),
      send: (call, proof) => post("send", call, proof, readAcceptance(call.expected))
    }
  })
)
