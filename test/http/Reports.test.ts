/** Floods of reports leave room to others. */
import { describe, expect } from "vitest"
import { Effect, TestClock } from "effect"
import { sha256 } from "../../src/services/Digest.ts"
import { type Answer, bearer } from "../world/Driver.ts"
import { it } from "../world/Test.ts"
import {
  inMemory,
  message,
  type Options,
  outcomeOf,
  refusal,
  requestLines,
  requests,
  type Sent
} from "./support.ts"

type Headers = Readonly<Record<string, string>>

/** A report of about so many times 95 KB. */
const report = (from: string, size = 0, headers: Headers = {}): Sent => {
  const attachment = (_: unknown, at: number) => ({ name: `${at}.log`, content: "x".repeat(95_000) })
  const attachments = Array.from({ length: size }, attachment)
  return { ...requests.report(headers), from, body: JSON.stringify({ message, attachments }) }
}

const prepare = (settings: Options["settings"] = {}, more: Pick<Options, "stores"> = {}) =>
  Effect.gen(function* () {
    const limits = { rateLimit: true, reportsBytes: 10_000_000 }
    const server = yield* inMemory({ settings: { ...limits, ...settings }, ...more })
    const outcome = (sent: Sent) => Effect.map(server.send(sent), outcomeOf)
    const signIn = (actor?: string) =>
      Effect.map(server.login(actor), ({ access_token }) => bearer(access_token))
    /** Reports from addresses of one network until the first refusal, which is returned. */
    const flood = (network: string, size: number, headers: Headers = {}) =>
      Effect.gen(function* () {
        for (let sent = 1; sent < 40; sent += 1) {
          const answer = yield* server.send(report(`${network}${sent}`, size, headers))
          if (answer.status !== 200) return answer
        }
        return yield* Effect.dieMessage("every report was stored")
      })
    /** While IAM is unavailable, a token does not identify a reporter. */
    const unverified = (sent: Sent) =>
      Effect.gen(function* () {
        server.upstreams.plan({
          path: "introspect",
          times: Number.POSITIVE_INFINITY,
          fault: refusal(500, "internal_error")
        })
        const answer = yield* Effect.fork(outcome(sent))
        yield* TestClock.adjust("4 seconds")
        return yield* answer
      })
    return { ...server, flood, outcome, signIn, unverified }
  })

const reasonOf = ({ text }: Answer) => /"reason":"([a-z]+)"/.exec(text)?.[1]
const anyone = "192.0.2.1"

describe("Reports", () => {
  it.scoped("without a verified reporter are limited to ten a minute of an address", function* () {
    const { lines, outcome, send, signIn, store, unverified } = yield* prepare()
    const signed = yield* signIn()
    const sent = Array.from({ length: 11 }, () => report(anyone))
    const answers = yield* Effect.forEach(sent, send)
    expect(answers.map(outcomeOf)).toEqual([...Array(10).fill(200), "rate_limited"])
    expect(answers.at(-1)?.headers).toMatchObject({
      "retry-after": "6",
      "ratelimit-policy": '"address";q=1200;w=60, "reports";q=10;w=60',
      ratelimit: expect.stringMatching(/, "reports";r=0;t=60$/)
    })
    expect(requestLines({ lines }).at(-1)?.fields.quota).toBe("reports")
    // For the refused one nothing is written.
    expect(yield* store.seen("reports.admit")).toHaveLength(10)
    expect(yield* outcome(report(anyone, 0, signed))).toBe(200)
    expect((yield* send(sent[0] ?? report(anyone))).text).toContain('"replayed":true')
    expect(yield* unverified(report(anyone, 0, signed))).toBe("rate_limited")
  })

  it.scoped("of others are stored after floods of four networks and of an account", function* () {
    const { flood, lines, outcome, send, signIn, store } = yield* prepare()
    for (const network of ["192.0.2.", "198.51.100.", "203.0.113.", "2001:db8:7::"]) {
      const refused = yield* flood(network, 3)
      const said = [outcomeOf(refused), reasonOf(refused), refused.headers["retry-after"]]
      expect(said).toEqual(["reports_full", "network", "3600"])
    }
    // Another address of the same /24, and another /64 of the same /48.
    for (const same of ["192.0.2.250", "2001:db8:7:ffff::1"])
      expect(reasonOf(yield* send(report(same, 3)))).toBe("network")
    // An honest caller of another network, and one who signs in behind a flooded one.
    expect(yield* outcome(report("233.252.0.1"))).toBe(200)
    const signed = yield* signIn()
    expect(yield* outcome(report(anyone, 0, signed))).toBe(200)
    expect(reasonOf(yield* flood("192.0.2.", 3, signed))).toBe("reporter")
    // No address and no prefix of one is logged or stored.
    const stored = JSON.stringify(yield* store.seen("reports.admit"))
    expect(stored).toMatch(/[0-9a-f]{64}/)
    expect(stored + JSON.stringify(lines)).not.toMatch(/192\.0\.2|198\.51|2001:db8/)
    // Nor a digest that is made without a key.
    for (const network of ["192.0.2", "192.0.2.0", "2001:db8:7"])
      expect(stored).not.toContain(sha256(network))
    // Behind a gateway that limits, networks do not count.
    const behind = yield* prepare({ rateLimit: false })
    const full = yield* behind.flood("192.0.2.", 5)
    expect([reasonOf(full), full.headers["retry-after"]]).toEqual(["room", "3600"])
  })

  it.scoped("with MUSIC_REPORTS_ANONYMOUS=off are those of signed-in callers only", function* () {
    const before = yield* prepare()
    const stored = report(anyone)
    expect(yield* before.outcome(stored)).toBe(200)
    const stores = { stores: before.stores }
    const { outcome, send, signIn, unverified } = yield* prepare({ anonymousReports: false }, stores)
    const refused = yield* send(report(anyone))
    expect([outcomeOf(refused), refused.text]).toEqual(["unauthenticated", expect.stringContaining("log in")])
    // What was stored before is still answered.
    expect((yield* send(stored)).text).toContain('"replayed":true')
    const signed = yield* signIn()
    expect(yield* outcome(report(anyone, 0, signed))).toBe(200)
    expect(yield* unverified(report(anyone, 0, signed))).toBe("dependency_unavailable")
  })
})
