import { readFileSync } from "node:fs"
import { describe, expect, expectTypeOf, it } from "vitest"
import type * as Plain from "../../client/Types.ts"
import type * as Descriptors from "../../src/schema/Descriptors.ts"
import type * as Health from "../../src/schema/Health.ts"
import type { Details } from "../../src/schema/Failure.ts"
import type { Report, ReportRequest } from "../../src/schema/Report.ts"
import type { Me, TingOutcome } from "../../src/schema/Session.ts"
import type { ClientTable } from "../../src/schema/Telemetry.ts"
import type { Subscription, Ting, TingRequest } from "../../src/schema/Ting.ts"

describe("The plain types", () => {
  it("equal those of the service's schemas", () => {
    expectTypeOf<Plain.Me>().toEqualTypeOf<Me>()
    expectTypeOf<Plain.TingOutcome>().toEqualTypeOf<TingOutcome>()
    expectTypeOf<Plain.Subscription>().toEqualTypeOf<Subscription>()
    expectTypeOf<Plain.Ting>().toEqualTypeOf<Ting>()
    expectTypeOf<Plain.Report>().toEqualTypeOf<Report>()
    expectTypeOf<Plain.IamDescriptor>().toEqualTypeOf<Descriptors.IamDescriptor>()
    expectTypeOf<Plain.Version>().toEqualTypeOf<Descriptors.Version>()
    expectTypeOf<Plain.Health>().toEqualTypeOf<Health.Health>()
    expectTypeOf<Plain.Readiness>().toExtend<Health.Readiness>()
    expectTypeOf<Plain.ClientTable>().toEqualTypeOf<ClientTable>()
    expectTypeOf<Plain.TingRequest>().toExtend<TingRequest>()
    expectTypeOf<Plain.ReportRequest>().toExtend<ReportRequest>()
    expectTypeOf<Details>().toExtend<Plain.ErrorDetails>()
  })

  it("distinguish errors by their code", () => {
    type Of<Code> = Extract<Plain.MusicError, { readonly code: Code }>
    expectTypeOf<Of<"rate_limited">["status"]>().toEqualTypeOf<429>()
    expectTypeOf<Of<"unexpected_answer">["status"]>().toEqualTypeOf<number>()
    expectTypeOf<Of<"logged_out">["retryable"]>().toEqualTypeOf<false>()
  })
})

describe("The client's modules", () => {
  const root = new URL("../../client/", import.meta.url)
  const importsOf = (file: string) =>
    [...readFileSync(new URL(file, root), "utf8").matchAll(/from "([^"]+)"/g)].map(
      ([, target = ""]) => target
    )

  it("import no library in the declarations of the promise client", () => {
    const plain = [
      "./ErrorTable.ts",
      "./Options.ts",
      "./SessionStore.ts",
      "./Types.ts",
      "../src/schema/FailureTable.ts"
    ]
    const shown = [
      "ErrorTable.ts",
      "Options.ts",
      "SessionStore.ts",
      "Types.ts",
      "WebSessionStore.ts"
    ].flatMap(importsOf)
    // Bundled, and part of no exported type, as the test of a consumer's project shows.
    const inside = ["idb"]
    expect(shown.filter((target) => ![...plain, ...inside].includes(target))).toEqual([])
  })
})
