import { readFileSync } from "node:fs"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { names, readingsOf, shows } from "../support/Reader.ts"
import { startTestSandbox } from "../support/Sandbox.ts"
import { calls, keyed } from "./Calls.ts"

const secret = "oat_SPLITsplitSPLITsplitSPLITsplitSPLITsplitSPL"
/** A credential with the invisible characters that a chat program inserts for display. */
const split = `${secret.slice(0, 12)}\u200B${secret.slice(12, 20)}\u00AD${secret.slice(20)}`

describe("A filed issue", () => {
  it.scopedLive("names neither its reporter nor a credential, whatever their form", function* () {
    const { base, databasePath, world } = yield* startTestSandbox
    const { login, post } = calls({ base, world })
    const { signed } = yield* login()
    const report = yield* post(
      "/api/v1/reports",
      {
        message: `actor_si:deejay cannot play with ${split}\nPasted: {"actor":"x\\nsi:deejay"}`,
        attachments: [{ name: "si:deejay.log", content: `actor:si:dee\u200Bjay, ${split}` }],
        context: {
          trace: "line one\nsi:deejay\tSI:DeeJay[acme]",
          [`key\n${split}`]: ["user=si%3Adeejay", { "\tsi:deejay": split }]
        }
      },
      { ...keyed(), ...signed }
    )
    expect([report.status, report.text]).toEqual([200, expect.stringContaining('"reporter":"si:deejay"')])
    const issue = yield* Effect.suspend(() =>
      Effect.fromNullable(world.tracker.issues("harbor/music")[0])
    ).pipe(Effect.retry(Schedule.spaced("50 millis").pipe(Schedule.upTo("10 seconds"))))
    const text = `${issue.title}\n${issue.body}`
    expect(names(text, "si:deejay")).toBe(false)
    expect(text).not.toContain("deejay")
    expect(shows(text, secret)).toBe(false)
    expect(text).toContain("[reporter] cannot play with [redacted]")
    for (const path of [databasePath, `${databasePath}-wal`])
      expect(readingsOf(readFileSync(path, "utf8")).join("\n")).not.toMatch(/SPLITsplit/)
  })
})
