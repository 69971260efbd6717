/** Deliveries of IAM and forged ones: who is counted, who is refused, and what is recorded. */
import { describe, expect } from "vitest"
import { Effect, TestClock } from "effect"
import { signWebhook } from "../../sandbox/upstreams/Iam.ts"
import { json } from "../world/Driver.ts"
import { it } from "../world/Test.ts"
import { deliveryOf, inMemory, type Options, outcomeOf } from "./support.ts"

type Headers = Readonly<Record<string, string>>

const prepare = (settings: Options["settings"] = { rateLimit: true }) =>
  Effect.gen(function* () {
    const server = yield* inMemory({ settings })
    const deliver = (from: string, body: string, headers: Headers = {}) =>
      server.send({ method: "POST", path: "/webhook", from, body, headers: { ...headers, ...json } })
    /** A delivery of now, with some headers or its body changed after it was signed. */
    const send = (from: string, changed: Headers = {}, body?: string) =>
      Effect.suspend(() => {
        const signed = deliveryOf(server.upstreams)
        return deliver(from, body ?? signed.body, { ...signed.headers, ...changed })
      })
    const forge = (from: string) => send(from, {}, "{}")
    return { ...server, deliver, forge, send }
  })

const forger = "203.0.113.7"
const invalid = "webhook_signature_invalid"

describe("Deliveries whose signature failed", () => {
  it.scoped("are refused beyond 60 a minute of an address, whose rightly signed ones pass", function* () {
    const { forge, lines, send } = yield* prepare()
    const answers = yield* Effect.replicateEffect(forge(forger), 75)
    const refused = [...Array(60).fill(invalid), ...Array(15).fill("rate_limited")]
    expect(answers.map(outcomeOf)).toEqual(refused)
    expect(answers.at(-1)?.headers).toMatchObject({
      "retry-after": "1",
      "ratelimit-policy": '"webhook_signatures";q=60;w=60',
      ratelimit: '"webhook_signatures";r=0;t=60'
    })
    const hour = String(Math.floor((yield* TestClock.currentTimeMillis) / 1_000) - 3_600)
    expect(outcomeOf(yield* send(forger))).toBe(200)
    // Not signed over this time, so it is a forgery too.
    expect(outcomeOf(yield* send(forger, { "x-silicon-iam-timestamp": hour }))).toBe("rate_limited")
    expect(outcomeOf(yield* forge("203.0.113.8"))).toBe(invalid)
    // Each refusal by the quota is in the summary of the minute alone.
    const said = lines.filter(({ message }) => message.includes("Webhook delivery rejected"))
    expect(said.length).toBeLessThan(75)
    yield* TestClock.adjust("1 seconds")
    expect(outcomeOf(yield* forge(forger))).toBe(invalid)
    expect(outcomeOf(yield* forge(forger))).toBe("rate_limited")
  })

  it.scoped("count without any signature header, by the /64 of an IPv6 address, where on", function* () {
    const { deliver, send } = yield* prepare()
    for (let at = 0; at < 60; at += 1) yield* deliver(`2001:db8:1:2::${at.toString(16)}`, "{}")
    expect(outcomeOf(yield* deliver("2001:db8:1:2:ffff::1", "{}"))).toBe("rate_limited")
    expect(outcomeOf(yield* deliver("2001:db8:1:3::1", "{}"))).toBe(invalid)
    expect(outcomeOf(yield* send("2001:db8:1:2::1"))).toBe(200)
    const off = yield* prepare({})
    const answers = yield* Effect.replicateEffect(off.forge(forger), 70)
    expect(new Set(answers.map(outcomeOf))).toEqual(new Set([invalid]))
  })

  it.scoped("are not those that break another rule, however many they are", function* () {
    const { deliver, forge, upstreams } = yield* prepare()
    const now = Math.floor((yield* TestClock.currentTimeMillis) / 1_000)
    const { webhookSecret } = upstreams.seeded.production
    for (let at = 0; at < 65; at += 1) {
      const timestamp = String(at % 2 === 0 ? now : now - 3_600)
      const signature = signWebhook(webhookSecret, timestamp, Buffer.from("{}"))
      const answer = yield* deliver(forger, "{}", {
        "x-silicon-iam-event-id": "none",
        "x-silicon-iam-timestamp": timestamp,
        "x-silicon-iam-key-version": "1",
        "x-silicon-iam-signature": signature
      })
      expect(outcomeOf(answer)).toBe(invalid)
    }
    expect(outcomeOf(yield* forge(forger))).toBe(invalid)
  })
})
