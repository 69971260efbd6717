/** Floods of reports leave room to others. */
import { describe, expect } from "vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import { it } from "../world/Test.ts"
import { bearer, inMemory, message, type Options, outcomeOf, requests, type Sent } from "./support.ts"
import { paths, refusal } from "./Upstreams.ts"

const prepare = (settings: Options["settings"] = {}, stores?: Options["stores"]) =>
  Effect.gen(function* () {
    const server = yield* inMemory({
      settings: { rateLimit: true, reportsBytes: 10_000_000, ...settings },
      ...(stores === undefined ? {} : { stores })
    })
    const signIn = (actor?: string) =>
      Effect.map(server.login(actor), ({ access_token }) => bearer(access_token))
    /** A report of about so many times 95 KB. */
    const report = (from: string, size = 0, headers: Readonly<Record<string, string>> = {}): Sent => {
      const attachments = Array.from({ length: size }, (_, at) => ({
        name: `${at}.log`,
        content: "x".repeat(95_000)
      }))
      return { ...requests.report(headers), from, body: JSON.stringify({ message, attachments }) }
    }
    /** Reports from addresses of one network until the first refusal, which is returned. */
    const flood = (network: string, size: number, headers: Readonly<Record<string, string>> = {}) =>
      Effect.gen(function* () {
        for (let sent = 1; sent < 40; sent += 1) {
          const answer = yield* server.send(report(`${network}${sent}`, size, headers))
          if (answer.status !== 200) return answer
        }
        return yield* Effect.dieMessage("every report was stored")
      })
    return { ...server, flood, report, signIn }
  })

const reasonOf = ({ text }: { readonly text: string }) => /"reason":"([a-z]+)"/.exec(text)?.[1]
const anyone = "192.0.2.1"

describe("Reports without a verified reporter", () => {
  it.scoped(
    "are limited to ten a minute, with quota and Retry-After, while signed-in callers are served",
    function* () {
      const { report, send, signIn, upstreams } = yield* prepare()
      const signed = yield* signIn()
      const sent = Array.from({ length: 11 }, () => report(anyone))
      const answers = yield* Effect.forEach(sent, send)
      expect(answers.map(outcomeOf)).toEqual([...Array(10).fill(200), "rate_limited"])
      const refused = answers.at(-1)?.headers ?? {}
      expect(refused).toMatchObject({
        "retry-after": "6",
        "ratelimit-policy": '"address";q=1200;w=60, "reports";q=10;w=60',
        ratelimit: expect.stringMatching(/, "reports";r=0;t=60$/)
      })
      expect(outcomeOf(yield* send(report(anyone, 0, signed)))).toBe(200)
      expect((yield* send(sent[0] ?? report(anyone))).text).toContain('"replayed":true')
      // While IAM is unavailable, a token does not identify a reporter.
      upstreams.fail({ path: paths.introspect, fault: refusal(500, "internal_error") })
      const unverified = yield* Effect.fork(send(report(anyone, 0, signed)))
      yield* TestClock.adjust("4 seconds")
      expect(outcomeOf(yield* unverified)).toBe("rate_limited")
    }
  )
})

describe("Reports of others", () => {
  it.scoped("are stored after floods of four networks and of an account", function* () {
    const { flood, lines, report, send, signIn, store } = yield* prepare()
    const first = report(anyone, 3)
    expect(outcomeOf(yield* send(first))).toBe(200)
    for (const network of ["192.0.2.", "198.51.100.", "203.0.113.", "2001:db8:7::"]) {
      const refused = yield* flood(network, 3)
      expect([outcomeOf(refused), reasonOf(refused), refused.headers["retry-after"]]).toEqual([
        "reports_full",
        "network",
        "3600"
      ])
    }
    // Another address of the same /24, and another /64 of the same /48.
    for (const same of ["192.0.2.250", "2001:db8:7:ffff::1"])
      expect(reasonOf(yield* send(report(same, 3)))).toBe("network")
    // An honest caller of another network, and one who signs in behind a flooded one.
    expect(outcomeOf(yield* send(report("233.252.0.1")))).toBe(200)
    const signed = yield* signIn()
    expect(outcomeOf(yield* send(report(anyone, 0, signed)))).toBe(200)
    expect(reasonOf(yield* flood("192.0.2.", 3, signed))).toBe("reporter")
    expect(outcomeOf(yield* send(report(anyone, 0, yield* signIn("si:lyra"))))).toBe(200)
    // Stored ones are answered in any case, and a warning names the commands, once for each cause.
    expect((yield* send(first)).text).toContain('"replayed":true')
    const warnings = lines.filter((line) => line.message.includes("Reports are refused"))
    expect(warnings.map(({ level }) => level)).toEqual(["WARN", "WARN"])
    for (const { fields } of warnings)
      expect(fields.fix).toContain("music-backend reports remove --anonymous")
    // No address and no prefix of one is logged or stored.
    const stored = JSON.stringify(yield* store.seen("reports.admit"))
    expect(stored).toMatch(/[0-9a-f]{64}/)
    expect(stored + JSON.stringify(warnings)).not.toMatch(/192\.0\.2|198\.51|2001:db8/)
  })

  it.scoped("do not count by network behind a gateway that limits", function* () {
    const { flood } = yield* prepare({ rateLimit: false })
    expect(reasonOf(yield* flood("192.0.2.", 5))).toBe("room")
  })
})

describe("MUSIC_REPORTS_ANONYMOUS=off", () => {
  it.scoped("takes reports of signed-in callers only, and answers what it stored of them", function* () {
    const before = yield* prepare()
    const stored = before.report(anyone)
    expect(outcomeOf(yield* before.send(stored))).toBe(200)
    const { report, send, signIn, upstreams } = yield* prepare({ anonymousReports: false }, before.stores)
    const refused = yield* send(report(anyone))
    expect(outcomeOf(refused)).toBe("unauthenticated")
    expect(refused.text).toContain("log in")
    expect((yield* send(stored)).text).toContain('"replayed":true')
    const signed = yield* signIn()
    expect(outcomeOf(yield* send(report(anyone, 0, signed)))).toBe(200)
    upstreams.fail({ path: paths.introspect, fault: refusal(500, "internal_error") })
    const unverified = yield* Effect.fork(send(report(anyone, 0, signed)))
    yield* TestClock.adjust("4 seconds")
    expect(outcomeOf(yield* unverified)).toBe("dependency_unavailable")
  })
})
