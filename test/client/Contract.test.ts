/** The client's table of calls and its types, compared with the contract of the service. The types are made from the document. */
import { expect, expectTypeOf, it } from "vitest"
import { type EndpointName, endpoints, type FailureCodesOf } from "../../client/calls/Endpoints.ts"
import type { Codes, Operations } from "../../client/Contract.ts"
import { clientErrorTable } from "../../client/failures/ErrorTable.ts"
import type * as Plain from "../../client/Types.ts"
import { packageVersion } from "../../client/calls/Requests.ts"
import type { Details } from "../../src/schema/Failure.ts"
import { type FailureCode, failureTable } from "../../src/schema/FailureTable.ts"
import { version as release } from "../../src/schema/Release.ts"
import type { Me } from "../../src/schema/Session.ts"
import type { TableName } from "../../src/schema/Telemetry.ts"
import { documentedCalls } from "../world/Contract.ts"

it("The table of calls has a row for every call of the contract but the webhook, and no further row", () => {
  const contract = documentedCalls.map(({ method, path }) => `${method} ${path}`)
  const rows = Object.values(endpoints).map(({ method, path }) => `${method} ${path}`)
  expect(rows.toSorted()).toEqual(contract.filter((route) => route !== "POST /webhook").toSorted())
  expectTypeOf<(typeof endpoints)[EndpointName]["route"]>().toEqualTypeOf<keyof Operations>()
})

it("The types that are made from the document are those of the service's schemas, and each code has its sentence", () => {
  expectTypeOf<Me>().toExtend<Plain.Me>()
  expectTypeOf<Plain.ClientTable>().toEqualTypeOf<TableName>()
  expectTypeOf<Details>().toExtend<Plain.ErrorDetails>()
  expectTypeOf<keyof Codes>().toEqualTypeOf<FailureCode | Plain.ClientErrorCode>()
  // Also those of the middleware.
  expectTypeOf<"slt_rejected" | "idempotency_key_required" | "shutting_down">().toExtend<
    FailureCodesOf<"login">
  >()
  expectTypeOf<FailureCodesOf<"healthz">>().toEqualTypeOf<"invalid_input" | "internal">()
  // A program could not distinguish a code that the service and the client share.
  expect(Object.keys(failureTable).filter((code) => Object.hasOwn(clientErrorTable, code))).toEqual([])
})

it("The client knows the version of the release", () => {
  expect(packageVersion).toBe(release)
})
