import { readFileSync } from "node:fs"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import { startTestSandbox } from "../support/Sandbox.ts"
import { calls, keyed } from "./Calls.ts"

const leak = "oat_LEAKleakLEAKleakLEAKleakLEAKleakLEAKleakLEA"

const stored = (path: string): string => readFileSync(path, "latin1") + readFileSync(`${path}-wal`, "latin1")

describe("A credential in the wrong place", () => {
  it.scopedLive("is not echoed by a refusal, and reaches neither the log nor the database", function* () {
    const sandbox = yield* startTestSandbox
    const { get, login, post } = calls(sandbox)
    const { signed } = yield* login()
    const message = "The player stops after a seek."
    const bodies: ReadonlyArray<readonly [string, unknown]> = [
      ["/api/v1/auth/login", { slt: `${leak} ` }],
      ["/api/v1/auth/login", { slt: [leak] }],
      ["/api/v1/auth/login", leak],
      ["/api/v1/auth/login", `"${leak}"`],
      ["/api/v1/auth/refresh", { refresh_token: [leak] }],
      ["/api/v1/auth/refresh", { refresh_token: leak }],
      ["/api/v1/auth/logout", { token: [leak] }],
      ["/api/v1/reports", { message: [leak] }],
      ["/api/v1/reports", { message, pr: leak }],
      ["/api/v1/reports", { message, attachments: [{ name: leak.repeat(4), content: leak }] }],
      ["/api/v1/reports", { message, context: leak }],
      ["/api/v1/telemetry", { table: leak, events: [{}] }],
      ["/api/v1/telemetry", { table: "musicclidaemon", events: [leak] }],
      ["/api/v1/tings", { type: leak, key: "si:deejay/x", data: {} }],
      ["/api/v1/tings", { type: "music.trigger.fired", key: leak, data: {} }],
      ["/webhook/", { token: leak }]
    ]
    const report = yield* post("/api/v1/reports", { message }, { ...keyed(), "x-request-id": leak })
    expect(report.status).toBe(200)
    for (const [path, body] of bodies) {
      const headers = path.endsWith("/tings") ? signed : keyed()
      const { status, text } = yield* post(path, body, headers)
      expect([path, Math.floor(status / 100)]).toEqual([path, 4])
      expect(text).not.toContain("LEAKleak")
    }
    const event = yield* post("/api/v1/telemetry", { table: "musicclidaemon", events: [{ id: leak }] })
    expect(event.status).toBe(204)
    for (const headers of [
      { authorization: `bearer ${leak}` },
      { authorization: `Bearer ${leak}`, "x-org-id": leak },
      { "x-testing-environment-key": leak },
      { authorization: `Bearer ${leak}`, "x-org-id": "acme" }
    ]) {
      const refused = yield* get(`/api/v1/auth/me?token=${leak}`, headers)
      expect(Math.floor(refused.status / 100)).toBe(4)
      expect(refused.text).not.toContain("LEAKleak")
    }
    expect(sandbox.log.join("\n")).not.toContain("LEAKleak")
    expect(stored(sandbox.databasePath)).not.toContain("LEAKleak")
  })
})
