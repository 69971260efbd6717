/** Deliveries of IAM and forged ones, over HTTP: who is counted, who is refused, and what is recorded. */
import { join } from "node:path"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { call } from "../../sandbox/HttpExchange.ts"
import { production } from "../../sandbox/upstreams/Iam.ts"
import { signWebhook } from "../../sandbox/upstreams/iam/WebhookSignature.ts"
import type { SettingsValues } from "../../src/services/Settings.ts"
import { startServer } from "../faults/Server.ts"
import { folder, openStore } from "../layers/store/Stores.ts"
import { eventually } from "../support/Waiting.ts"
import { codeOf } from "./Calls.ts"

type Headers = Readonly<Record<string, string>>

const inLowerCase = (headers: Headers): Headers =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))

const start = (change: Partial<SettingsValues> = {}) =>
  Effect.gen(function* () {
    const server = yield* startServer(openStore(join(yield* folder, "music.sqlite")), {
      // The addresses of the senders are those of X-Forwarded-For.
      trustedProxies: ["127.0.0.1"],
      ...change
    })
    const { controls } = server.world.iam
    const deliver = (address: string, body: string, headers: Headers) =>
      call(`${server.base}/webhook`, {
        method: "POST",
        body,
        headers: { ...inLowerCase(headers), "content-type": "application/json", "x-forwarded-for": address }
      })
    /** A delivery as IAM signs it now, with its body or some headers changed after that. */
    const send = (
      address: string,
      change: { readonly plane?: string; readonly body?: string; readonly headers?: Headers } = {}
    ) =>
      Effect.suspend(() => {
        const plane = change.plane ?? production
        const signed = controls.buildWebhook(
          plane,
          controls.events.membershipUpdated(plane, "si:lyra", "acme")
        )
        return deliver(address, change.body ?? signed.body.toString("utf8"), {
          ...inLowerCase(signed.headers),
          ...change.headers
        })
      })
    const forge = (address: string) => send(address, { body: "{}" })
    return { ...server, send, forge, deliver }
  })

const forger = "203.0.113.7"

describe("Deliveries whose signature failed", () => {
  it.scopedLive(
    "are refused beyond 60 a minute of an address, and rightly signed ones from it never are",
    function* () {
      const { forge, log, send } = yield* start()
      const begun = performance.now()
      const answers = yield* Effect.replicateEffect(forge(forger), 75, { concurrency: 5 })
      const codes = answers.map(codeOf)
      // Five are on their way at one time, so they may arrive in another order.
      expect(codes.filter((code) => code === "webhook_signature_invalid").length).toBeGreaterThanOrEqual(60)
      // The quota refills by one each second, which a slow machine may reach.
      const refilled = Math.ceil((performance.now() - begun) / 1_000)
      const refused = answers.filter((answer) => codeOf(answer) === "rate_limited")
      expect(refused.length).toBeGreaterThanOrEqual(15 - refilled)
      const [one] = refused
      expect([one?.status, one?.headers.get("retry-after")]).toEqual([429, "1"])
      expect(one?.headers.get("ratelimit-policy")).toBe('"webhook_signatures";q=60;w=60')
      expect(one?.headers.get("ratelimit")).toMatch(/^"webhook_signatures";r=0;t=\d+$/)

      const hour = String(Math.floor(Date.now() / 1_000) - 3_600)
      for (let at = 0; at < 10; at += 1) {
        yield* forge(forger)
        expect((yield* send(forger)).status).toBe(200)
        // Not signed over this time, so it is a forgery too.
        yield* send(forger, { headers: { "x-silicon-iam-timestamp": hour } })
      }
      expect((yield* forge("203.0.113.8")).status).toBe(401)
      // Each refusal by the quota is in the summary of the minute alone.
      const warned = log.filter((line) => line.includes("Webhook delivery rejected"))
      expect(warned.length).toBeLessThan(75)
    }
  )

  it.scopedLive("count without any signature header, by the /64 of an IPv6 address", function* () {
    const { deliver, send } = yield* start()
    for (let at = 0; at < 70; at += 1) yield* deliver(`2001:db8:1:2::${at.toString(16)}`, "{}", {})
    expect((yield* deliver("2001:db8:1:2:ffff::1", "{}", {})).status).toBe(429)
    expect((yield* deliver("2001:db8:1:3::1", "{}", {})).status).toBe(401)
    expect((yield* send("2001:db8:1:2::1")).status).toBe(200)
  })

  it.scopedLive("are never 429 with MUSIC_RATE_LIMIT=off", function* () {
    const { forge } = yield* start({ rateLimit: false })
    const answers = yield* Effect.replicateEffect(forge(forger), 70, { concurrency: 5 })
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([401]))
  })
})

describe("Rightly signed deliveries that break another rule", () => {
  it.scopedLive("are no forgeries: they are refused as ever, however many they are", function* () {
    const { deliver, forge, world } = yield* start()
    const { controls } = world.iam
    const signedAt = (secondsAgo: number, body: string, eventId = "none"): Headers => {
      const timestamp = String(Math.floor(Date.now() / 1_000) - secondsAgo)
      return {
        "x-silicon-iam-event-id": eventId,
        "x-silicon-iam-timestamp": timestamp,
        "x-silicon-iam-key-version": "1",
        "x-silicon-iam-signature": signWebhook(
          world.seeded.production.webhookSecret,
          timestamp,
          Buffer.from(body)
        )
      }
    }
    const event = controls.events.membershipUpdated(production, "si:lyra", "acme")
    const whole = controls.buildWebhook(production, event).body.toString("utf8")
    // To write it again would end the stack.
    const nested = whole.replace('"data":{', `"data":{"deep":${"[".repeat(100_000)}${"]".repeat(100_000)},`)
    for (let at = 0; at < 35; at += 1)
      for (const [secondsAgo, body, status] of [
        [3_600, whole, 401],
        [0, "{}", 401],
        [0, nested, 400]
      ] as const) {
        const eventId = /"event_id":"([^"]+)"/.exec(body)?.[1]
        const headers = signedAt(secondsAgo, body, eventId)
        expect((yield* deliver(forger, body, headers)).status).toBe(status)
      }
    expect((yield* forge(forger)).status).toBe(401)
  })
})

describe("The backend's own events of deliveries", () => {
  it.scopedLive("are those of verified production deliveries", function* () {
    const { deliver, log, send, world } = yield* start({ rateLimit: false })
    const { environmentId } = world.seeded.environment
    expect((yield* send(forger, { plane: environmentId })).status).toBe(403)
    for (const body of ['{"test":{}}', '{"\\u0074est":{}}', "{}", "no JSON"])
      expect((yield* deliver(forger, body, {})).status).toBe(401)
    expect((yield* send(forger)).status).toBe(200)
    const rows = () => JSON.stringify(world.tables.rows("musicbackend"))
    yield* eventually("the events", () => rows().includes("webhook.completed"))
    expect(rows().match(/"webhook\.completed"/g)).toHaveLength(1)
    expect(rows().match(/"\/webhook"/g)).toHaveLength(1)
    const planes = log.flatMap((line) => /"route":"\/webhook".*"plane":"([a-z]+)"/.exec(line)?.[1] ?? [])
    expect(planes).toEqual(["testing", ...Array(4).fill("unverified"), "production"])
  })
})
