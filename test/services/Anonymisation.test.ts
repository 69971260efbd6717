import { describe, expect, it } from "vitest"
import { anonymise, anonymiseAll } from "../../src/services/Anonymisation.ts"

describe("Anonymisation", () => {
  it.each([
    ["si:deejay and si:deejay2", "[reporter] and si:deejay2"],
    ["si:deejaysi:deejay si:deejayc:ana", "[reporter][reporter] [reporter]c:ana"],
    ["si:dee\u200Bjay\u200B.", "[reporter]\u200B."],
    ["a\u200B si%3Adeejay \u00AD", "a\u200B [reporter] \u00AD"],
    ["si%5Cu003adeejay", "[reporter]"],
    ["\\uFF53i:deejay, \uFF53\uFF49\uFF1Adeejay", "[reporter], [reporter]"],
    ["si:deejay\u0300 si:deejay\u00E9", "[reporter]\u0300 [reporter]\u00E9"],
    ["si deejay, si;deejay, deejay", "si deejay, si;deejay, deejay"]
  ])("anonymises %j", (text, clean) => {
    expect(anonymise(text, "si:deejay")).toBe(clean)
  })

  it("finds the id through a ligature", () => {
    expect(anonymise("si:d\u0133k, si:d&ijlig;k", "si:dijk")).toBe("[reporter], [reporter]")
  })

  it("treats an underscore as the colon only at the start of a word", () => {
    expect(anonymise("c_error, sync_error, c_errors, sync:error", "c:error")).toBe(
      "[reporter], sync_error, c_errors, syn[reporter]"
    )
  })

  it.each([
    "si&#0000000058;deejay",
    `si&#${"0".repeat(5_000)}58;deejay`,
    "si&#x0000000003a;deejay",
    "si\\u{3a}deejay and si\\\\u{000003A}deejay",
    "si%u003adeejay and si%25u003Adeejay",
    "si:dee%udb40%udc61jay",
    "&sopf;&iscr;:&dfr;eejay",
    "si:de&shy&semi;ejay",
    "si&#5&#X38;;deejay",
    "si&#58deejay and &#115&#105&#58&#100eejay",
    "si%26amp%3B%2358%3Bdeejay",
    "si&#37;5C%75003adeejay",
    "si\\%783adeejay and si\\&#120;3adeejay",
    ...[
      "lrm",
      "rlm",
      "NoBreak",
      "InvisibleTimes",
      "ApplyFunction",
      "InvisibleComma",
      "it",
      "af",
      "ic",
      "zwj",
      "zwnj",
      "ZeroWidthSpace",
      "NegativeThinSpace",
      "shy"
    ].map((name) => `si:dee&${name};jay and si:d&amp;${name};eejay`)
  ])("finds the id in %j", (text) => {
    expect(anonymise(text, "si:deejay").replace(" and ", "")).toMatch(/^(?:\[reporter\]){1,2}$/)
  })

  it.each(["si&colondeejay", "si&#58deejay"])("finds the id in %j behind deeply encoded text", (text) => {
    const decoy = `&#37;26${"#37;26".repeat(4)}#37;41`
    expect(anonymise(`${decoy} ${text}`, "si:deejay")).toBe(`${decoy} [reporter]`)
  })

  it("keeps a parameter whose name only begins like a reference", () => {
    expect(anonymise("si:dee&item=jay", "si:deejay")).toBe("si:dee&item=jay")
  })

  it.each([
    ["si:deejay-laptop, c:ana_1 and SI:Lyra[acme]", "[reporter], [reporter] and [reporter][acme]"],
    ["actor_si:deejay actor=c:ana actor:c:ana", "actor_[reporter] actor=[reporter] actor:[reporter]"],
    ["si:deejaysi:deejay c:anac:ana:x", "[reporter] [reporter]:x"],
    [`c:${"a".repeat(30)} si:${"a".repeat(50)}`, "[reporter] [reporter]"],
    ["c:ab si:ab sync:error xsi:deejay https://host", "c:ab si:ab sync:error xsi:deejay https://host"],
    [
      "si\u200B:dee\u200Bjay si%3Adeejay si\\u{3a}deejay \uFF53i:deejay",
      "[reporter] [reporter] [reporter] [reporter]"
    ],
    ["x\\nsi:deejay%0Ac:ana", "x\\n[reporter]%0A[reporter]"],
    ["si:dee%6Aay c:ana\\u002dmaria", "[reporter] [reporter]"],
    ["/cache/si_deejay/c_ana.log", "/cache/[reporter]/[reporter].log"]
  ])("anonymises every id in %j when the reporter is unknown", (text, clean) => {
    expect(anonymiseAll(text)).toBe(clean)
  })
})
