/** The documentation page of a sandbox: what the document has as examples is live there, anew at each load of the page. */
import { randomUUID } from "node:crypto"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Effect from "effect/Effect"
import { Api } from "../src/http/Api.ts"
import type { ShownDocument } from "../src/http/DocsPage.ts"
import { CurrentExchange } from "../src/http/middleware/Exchange.ts"
import { examples, placeholders } from "../src/http/openapi/Examples.ts"
import { daemonTable } from "../src/schema/Telemetry.ts"
import { call, expectJson } from "./HttpExchange.ts"
import { makeServiceClient, tokensIn } from "./ServiceClient.ts"
import { mintSlt, type SimulatedUpstreams } from "./SimulatedUpstreams.ts"
import { signWebhook } from "./upstreams/Iam.ts"

const about = ({ iam, seeded: { environment, production } }: SimulatedUpstreams) =>
  `**This is a sandbox.** Each call can be sent from this page: press *Test Request*, then *Send*. What is filled in is live: a session of \`si:deejay\` in \`acme\`, a short-lived token, keys, and a signed delivery. The token works once and for two minutes, and the signature for five: reload the page for new ones, or get a token by \`curl -X POST ${iam.url}/_sandbox/slt\`. With the header \`X-Testing-Environment-Key: ${environment.musicSecret}\` a call selects the testing plane, where a login takes \`si:deejay\` for a token. The webhook secret is \`${production.webhookSecret}\`. The identity service, the notification service, the tables and the tracker are simulated.\n\n`

/** The console leaves out what has this name. */
export const liveDocsAgent = "music-sandbox-docs"

const login = (base: string, slt: string) => {
  const request = makeServiceClient(base).login(slt)
  const headers = { ...request.headers, "user-agent": liveDocsAgent }
  return call(request.url, { ...request, headers }).pipe(
    Effect.flatMap((answer) => expectJson(answer, 200)),
    Effect.map(tokensIn)
  )
}

/** Replaces texts of a JSON value, which keeps its type. */
const replaceTexts = <A>(value: A, pairs: ReadonlyArray<readonly [old: string, live: string]>): A =>
  JSON.parse(pairs.reduce((text, [old, live]) => text.replaceAll(old, live), JSON.stringify(value)))

/** The bytes that the page sends for a body. It trims what is within innermost braces, where it looks for the names of variables. */
const bytesOf = (body: unknown): Buffer =>
  Buffer.from(
    JSON.stringify(body, null, 2).replaceAll(/\{([^{}]+)\}(?!\})/g, (_, inner: string) => `{${inner.trim()}}`)
  )

/**
 * `baseOf` gives the address of the service, once it listens. Without an answer to the login, such as by a fault of the console, the page has no session and is
 * served all the same. Nor has it under another name of this machine, by which a page of another site would read it (DNS rebinding). What it
 * makes for itself is put into `hidden`.
 */
export const liveDocs = (
  world: SimulatedUpstreams,
  baseOf: () => string,
  now: () => number,
  hidden: Set<string>
): Effect.Effect<ShownDocument> =>
  Effect.gen(function* () {
    const base = baseOf()
    const { headers } = (yield* CurrentExchange).message
    const names = [base, base.replace("127.0.0.1", "localhost")]
    if (!names.includes(`http://${headers.host}`)) return { document: OpenApi.fromApi(Api), scalar: {} }
    const sessions = yield* Effect.all({
      used: login(base, mintSlt(world)),
      // The one that the page ends is not the one that it calls with.
      ended: login(base, mintSlt(world))
    }).pipe(Effect.catchTag("StepFailed", () => Effect.succeed(undefined)))
    const slt = mintSlt(world)
    for (const tokens of [sessions?.used, sessions?.ended])
      hidden.add(world.iam.controls.familyOf(tokens?.access ?? "")?.id ?? "")
    hidden.add(slt)
    const timestamp = String(Math.floor(now() / 1_000))
    const { webhookSecret } = world.seeded.production
    const values = [
      [placeholders.slt, slt],
      [placeholders.refreshToken, sessions?.used?.refresh ?? placeholders.refreshToken],
      [placeholders.endedToken, sessions?.ended?.refresh ?? placeholders.endedToken],
      [placeholders.idempotencyKey, randomUUID()],
      [placeholders.tingKey, `si:deejay/docs/${randomUUID()}`],
      [placeholders.telemetryId, randomUUID()],
      [placeholders.eventId, randomUUID()],
      // The daemon's own table takes nothing from browsers.
      [`"table":"${daemonTable}"`, '"table":"musicfrontendevents"'],
      // The page sends its bearer with each call, and then the organisation, too.
      ['"required":false', '"required":true']
    ] as const
    const delivery = bytesOf(replaceTexts(examples["webhooks.receive"].request, values))
    const { info, ...document } = replaceTexts(OpenApi.fromApi(Api), [
      ...values,
      [placeholders.timestamp, timestamp],
      [placeholders.signature, signWebhook(webhookSecret, timestamp, delivery)],
      ["http://127.0.0.1:8787", base]
    ])
    return {
      document: { ...document, info: { ...info, description: `${about(world)}${info.description ?? ""}` } },
      scalar:
        sessions?.used === undefined
          ? {}
          : {
              authentication: {
                preferredSecurityScheme: "bearer",
                securitySchemes: { bearer: { token: sessions.used.access } }
              }
            }
    }
  })
