/** Over HTTP: floods of reports from networks and of an account leave room to others. */
import { join } from "node:path"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { mintSlt } from "../../sandbox/SimulatedUpstreams.ts"
import { iamFaults } from "../../sandbox/upstreams/Iam.ts"
import type { SettingsValues } from "../../src/services/Settings.ts"
import { startServer } from "../faults/Server.ts"
import { folder, kinds, sqlite } from "../layers/store/Stores.ts"
import { calls, codeOf, keyed } from "./Calls.ts"

const whole = 10_000_000

const start = (change: Partial<SettingsValues> = {}, kind = sqlite) =>
  Effect.gen(function* () {
    const path = kind.name === "SQLite" ? join(yield* folder, "music.sqlite") : yield* kind.freshPath
    const server = yield* startServer(kind.openStore(path), {
      reportsBytes: whole,
      trustedProxies: ["127.0.0.1"],
      ...change
    })
    const { login, post } = calls(server)
    /** Sends a new report of about so many times 95 KB; two of one network at different addresses count together. */
    const report = (from: string, size = 0, headers: Readonly<Record<string, string>> = keyed()) =>
      post(
        "/api/v1/reports",
        {
          message: "The player stops after a seek.",
          attachments: Array.from({ length: size }, (_, index) => ({
            name: `${index}.log`,
            content: "x".repeat(95_000)
          }))
        },
        { "x-forwarded-for": from, ...headers }
      )
    /** Reports of one network until the first refusal, and that. */
    const flood = (network: string, size: number, headers = () => keyed()) =>
      Effect.gen(function* () {
        for (let sent = 0; sent < 30; sent += 1) {
          const answer = yield* report(`${network}${sent + 1}`, size, headers())
          if (answer.status !== 200) return { sent, answer }
        }
        return { sent: 30, answer: undefined }
      })
    return { flood, login, report, server, path, kind }
  })

const detail = (text: string | undefined) => /"reason":"([a-z]+)"/.exec(text ?? "")?.[1]

describe("Reports of others", () => {
  for (const kind of kinds)
    it.scopedLive(`are stored after floods of four networks and of an account, ${kind.name}`, function* () {
      const { flood, login, path, report, server } = yield* start({}, kind)
      const first = keyed()
      expect((yield* report("192.0.2.1", 3, first)).status).toBe(200)
      for (const network of ["192.0.2.", "198.51.100.", "203.0.113.", "2001:db8:7:"]) {
        const { answer } = yield* flood(network.includes(":") ? network.replace(/:$/, "::") : network, 3)
        expect([answer?.status, codeOf(answer ?? ({ text: "" } as never))]).toEqual([503, "reports_full"])
        expect([answer?.headers.get("retry-after"), detail(answer?.text)]).toEqual(["3600", "network"])
      }
      // Another address of the same /24, and another /64 of the same /48.
      for (const same of ["192.0.2.250", "2001:db8:7:ffff::1"])
        expect(detail((yield* report(same, 3)).text)).toBe("network")
      // An honest caller of another network, and one who signs in behind a flooded one.
      expect((yield* report("233.252.0.1")).status).toBe(200)
      const { signed } = yield* login()
      expect((yield* report("192.0.2.1", 0, { ...keyed(), ...signed })).status).toBe(200)

      const account = yield* flood("192.0.2.", 3, () => ({ ...keyed(), ...signed }))
      expect([account.answer?.status, detail(account.answer?.text)]).toEqual([503, "reporter"])
      const { signed: other } = yield* login({}, mintSlt(server.world, "si:lyra"))
      expect((yield* report("192.0.2.1", 0, { ...keyed(), ...other })).status).toBe(200)

      // Stored ones are answered in any case, and a warning names the commands, once for each cause.
      expect((yield* report("192.0.2.1", 3, first)).text).toContain('"replayed":true')
      const warnings = server.log.filter((line) => line.includes("Reports are refused"))
      expect(warnings.map((line) => /"level":"(\w+)"/i.exec(line)?.[1]?.toLowerCase())).toEqual([
        "warn",
        "warn"
      ])
      for (const line of warnings) {
        expect(line).toContain("music-backend reports remove --anonymous")
        expect(line).not.toContain("192.0.2")
      }
      // No address and no prefix of one is stored.
      const rows = JSON.stringify(yield* kind.rawQuery(path, "SELECT * FROM room_holders"))
      expect(rows).toMatch(/[0-9a-f]{64}/)
      expect(rows).not.toMatch(/192\.0|2001:db8/)
    })

  it.scopedLive("a client behind a gateway that limits is not counted by its network", function* () {
    const { flood } = yield* start({ rateLimit: false })
    const { answer } = yield* flood("192.0.2.", 5)
    expect(detail(answer?.text)).toBe("room")
  })
})

describe("MUSIC_REPORTS_ANONYMOUS=off", () => {
  it.scopedLive("takes reports of signed-in callers only, and answers what is stored", function* () {
    const path = join(yield* folder, "music.sqlite")
    const before = keyed()
    yield* Effect.scoped(
      Effect.gen(function* () {
        const server = yield* startServer(sqlite.openStore(path))
        const answer = yield* calls(server).post(
          "/api/v1/reports",
          { message: "The player stops after a seek." },
          before
        )
        expect(answer.status).toBe(200)
      })
    )
    const server = yield* startServer(sqlite.openStore(path), { anonymousReports: false })
    const { login, post } = calls(server)
    const report = (headers: Readonly<Record<string, string>>) =>
      post("/api/v1/reports", { message: "The player stops after a seek." }, headers)
    const refused = yield* report(keyed())
    expect([refused.status, codeOf(refused)]).toEqual([401, "unauthenticated"])
    expect(refused.text).toContain("log in")
    expect((yield* report(before)).text).toContain('"replayed":true')
    const { signed } = yield* login()
    expect((yield* report({ ...keyed(), ...signed })).status).toBe(200)
    server.world.iam.fail({ path: "/api/v1/oauth/introspect", fault: iamFaults.internalError() })
    const unverified = yield* report({ ...keyed(), ...signed })
    expect([unverified.status, codeOf(unverified)]).toEqual([503, "dependency_unavailable"])
  })
})
