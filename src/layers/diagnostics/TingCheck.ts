import type { HttpClient } from "@effect/platform/HttpClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { SettingsValues } from "../../services/Settings.ts"
import { envelopeFailure } from "../upstream/ErrorEnvelope.ts"
import { makeUpstream } from "../upstream/Upstream.ts"
import { readJson } from "../upstream/UpstreamResponse.ts"
import { type Check, callTimeoutSeconds, fail, fixOfCall, pass, summarizeFailure } from "./Finding.ts"

const Health = Schema.Struct({
  status: Schema.String,
  service: Schema.Literal("ting"),
  version: Schema.optional(Schema.String.pipe(Schema.pattern(/^[\w.+-]{1,64}$/)))
})

/** Calls the health route only: any other call would spend a proof (notification-service.md 1, 2). */
export const checkTing = (client: HttpClient, { ting }: Pick<SettingsValues, "ting">): Check =>
  makeUpstream(client, {
    dependency: "ting",
    url: ting.url,
    timeoutSeconds: Math.min(ting.timeoutSeconds, callTimeoutSeconds),
    maxResponseBytes: 65_536,
    failureOf: envelopeFailure({ requestIdHeader: "ting-request-id" })
  })({ operation: "check", method: "GET", path: "/healthz", headers: {}, read: readJson(Health) }).pipe(
    Effect.match({
      onSuccess: ({ status, version }) =>
        status === "ok"
          ? pass("ting", `reached at ${ting.url}${version === undefined ? "" : `, version ${version}`}`)
          : fail("ting", "it reports that it is not healthy", "ask the operator of Ting"),
      onFailure: (failure) =>
        fail(
          "ting",
          failure._tag === "NotExecuted"
            ? `no response from ${ting.url} (${failure.reason})`
            : `the service at ${ting.url} is not Ting: ${summarizeFailure(failure)}`,
          fixOfCall(
            failure,
            "set MUSIC_TING_URL to the address of Ting, and allow this machine to connect to it"
          )
        )
    }),
    Effect.map((finding) => [finding])
  )
