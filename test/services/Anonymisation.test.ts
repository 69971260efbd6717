import { describe, expect, it } from "vitest"
import { anonymise } from "../../src/services/Anonymisation.ts"

describe("Anonymisation", () => {
  it.each([
    ["si:deejay and si:deejay2", "[reporter] and si:deejay2"],
    ["si:deejaysi:deejay", "[reporter][reporter]"],
    ["si:dee\u200Bjay\u200B.", "[reporter]\u200B."],
    ["a\u200B si%3Adeejay \u00AD", "a\u200B [reporter] \u00AD"],
    ["si%5Cu003adeejay", "[reporter]"],
    ["\\uFF53i:deejay, \uFF53\uFF49\uFF1Adeejay", "[reporter], [reporter]"],
    ["si:deejay\u0300 si:deejay\u00E9", "[reporter]\u0300 [reporter]\u00E9"],
    ["si deejay, si;deejay, deejay", "si deejay, si;deejay, deejay"]
  ])("makes of %j", (text, clean) => {
    expect(anonymise(text, "si:deejay")).toBe(clean)
  })

  it("takes an underscore for the colon only where a word begins", () => {
    expect(anonymise("c_error, sync_error, c_errors, sync:error", "c:error")).toBe(
      "[reporter], sync_error, c_errors, syn[reporter]"
    )
  })
})
