import { readFileSync } from "node:fs"
import { describe, expect, expectTypeOf, it } from "vitest"
import type * as Plain from "../../client/Types.ts"
import { packageVersion } from "../../client/Version.ts"
import type * as Descriptors from "../../src/schema/Descriptors.ts"
import type * as Health from "../../src/schema/Health.ts"
import type { Details } from "../../src/schema/Failure.ts"
import { version } from "../../src/schema/Release.ts"
import type { Report, ReportRequest } from "../../src/schema/Report.ts"
import type { Me, TingOutcome } from "../../src/schema/Session.ts"
import type { ClientTable } from "../../src/schema/Telemetry.ts"
import type { Subscription, Ting, TingRequest } from "../../src/schema/Ting.ts"

/** The same members; a text with known values may have others in the client's type. */
type Members<A> = keyof A

describe("The plain types", () => {
  it("hold the values of the service's schemas", () => {
    expectTypeOf<Me>().toExtend<Plain.Me>()
    expectTypeOf<Plain.TingOutcome>().toEqualTypeOf<TingOutcome>()
    expectTypeOf<Plain.Subscription>().toEqualTypeOf<Subscription>()
    expectTypeOf<Plain.Ting>().toEqualTypeOf<Ting>()
    expectTypeOf<Report>().toExtend<Plain.Report>()
    expectTypeOf<Descriptors.IamDescriptor>().toExtend<Plain.IamDescriptor>()
    expectTypeOf<Descriptors.Version>().toExtend<Plain.Version>()
    expectTypeOf<Health.Health>().toExtend<Plain.Health>()
    expectTypeOf<Health.Readiness>().toExtend<Plain.Readiness>()
    expectTypeOf<Plain.ClientTable>().toEqualTypeOf<ClientTable>()
    expectTypeOf<Details>().toExtend<Plain.ErrorDetails>()
  })

  it("have the same members", () => {
    expectTypeOf<Members<Plain.Me>>().toEqualTypeOf<Members<Me>>()
    expectTypeOf<Members<Plain.Report>>().toEqualTypeOf<Members<Report>>()
    expectTypeOf<Members<Plain.IamDescriptor>>().toEqualTypeOf<Members<Descriptors.IamDescriptor>>()
    expectTypeOf<Members<Plain.Version>>().toEqualTypeOf<Members<Descriptors.Version>>()
    expectTypeOf<Members<Plain.Health>>().toEqualTypeOf<Members<Health.Health>>()
    expectTypeOf<Members<Plain.Readiness>>().toEqualTypeOf<Members<Health.Readiness>>()
    expectTypeOf<Members<Plain.TingRequest>>().toEqualTypeOf<Members<TingRequest>>()
    expectTypeOf<Members<Plain.ReportRequest>>().toEqualTypeOf<Members<ReportRequest>>()
    expectTypeOf<Omit<Plain.TingRequest, "data" | "metadata">>().toExtend<
      Omit<TingRequest, "data" | "metadata">
    >()
    expectTypeOf<Omit<Plain.ReportRequest, "context">>().toExtend<Omit<ReportRequest, "context">>()
  })

  it("distinguish errors by their code", () => {
    type Of<Code> = Extract<Plain.MusicError, { readonly code: Code }>
    expectTypeOf<Of<"rate_limited">["status"]>().toEqualTypeOf<429>()
    expectTypeOf<Of<"unexpected_answer">["status"]>().toEqualTypeOf<number>()
    expectTypeOf<Of<"logged_out">["retryable"]>().toEqualTypeOf<false>()
    expectTypeOf<Of<"logged_out">["details"]["reason"]>().toEqualTypeOf<Plain.LoggedOutReason>()
  })
})

describe("The client's modules", () => {
  const root = new URL("../../", import.meta.url)
  /** Modules whose declarations the promise client shows. */
  const shown = [
    "client/Events.ts",
    "client/Options.ts",
    "client/Types.ts",
    "client/failures/ErrorGuards.ts",
    "client/failures/ErrorTable.ts",
    "client/failures/StoreFailures.ts",
    "client/stores/SessionStore.ts",
    "client/stores/WebSessionStore.ts",
    "src/schema/FailureTable.ts"
  ]
  const importsOf = (file: string) =>
    [...readFileSync(new URL(file, root), "utf8").matchAll(/from "([^"]+)"/g)].map(([, target = ""]) =>
      target.startsWith(".") ? new URL(target, new URL(file, root)).href.slice(root.href.length) : target
    )

  it("know the version of the release", () => {
    expect(packageVersion).toBe(version)
  })

  it("import no library in the declarations of the promise client", () => {
    // Bundled, and part of no exported type, as the test of a consumer's project shows.
    const inside = ["idb"]
    const others = shown.flatMap(importsOf).filter((target) => ![...shown, ...inside].includes(target))
    expect(others).toEqual([])
  })
})
