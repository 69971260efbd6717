import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import { startTestSandbox } from "../support/Sandbox.ts"
import { raw } from "./Calls.ts"

const selector = "X-Testing-Environment-Key"

describe("Planes over HTTP", () => {
  it.scopedLive("are never production for a malformed or repeated selector", function* () {
    const { base, world } = yield* startTestSandbox
    const { environment, production } = world.seeded
    const ask = (lines: string) =>
      raw(base, `GET /api/v1/iam HTTP/1.1\r\nHost: x\r\n${lines}\r\nConnection: close\r\n\r\n`)
    for (const lines of [
      `${selector}:`,
      `${selector}: ${environment.musicSecret}\r\n${selector}: ${environment.musicSecret}`,
      `${selector} : ${environment.musicSecret}`,
      `${selector}:\r\n ${environment.musicSecret}`,
      `${selector}: ${environment.musicSecret}\xe9`,
      `${selector}: ${environment.rootKey}`,
      `${selector}: ${environment.tingSecret}`,
      `${selector}: ${production.musicSecret}`
    ]) {
      expect(yield* ask(lines)).toMatch(/^HTTP\/1\.1 40[01] /)
    }
    for (const lines of [
      `${selector.toUpperCase()}: ${environment.musicSecret}`,
      `${selector}:\t${environment.musicSecret}\t`
    ]) {
      expect(yield* ask(lines)).toContain(`"testing_environment_id":"${environment.environmentId}"`)
    }
  })
})
