/** The client's types and its table of calls, compared with the contract of the service. */
import * as HttpApi from "@effect/platform/HttpApi"
import type * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import { expect, expectTypeOf, it } from "vitest"
import { type EndpointFailures, type EndpointName, endpoints } from "../../client/calls/Endpoints.ts"
import { clientErrorTable } from "../../client/failures/ErrorTable.ts"
import type * as Plain from "../../client/Types.ts"
import { packageVersion } from "../../client/Version.ts"
import { Api } from "../../src/http/Api.ts"
import type { login, logout, me, refresh } from "../../src/http/api/Auth.ts"
import type { iam, version } from "../../src/http/api/Descriptors.ts"
import type { submit } from "../../src/http/api/Reports.ts"
import type { healthz, readyz } from "../../src/http/api/System.ts"
import type { accept } from "../../src/http/api/Telemetry.ts"
import type { send, subscribe } from "../../src/http/api/Tings.ts"
import type * as Descriptors from "../../src/schema/Descriptors.ts"
import type { Details } from "../../src/schema/Failure.ts"
import { failureTable } from "../../src/schema/FailureTable.ts"
import type * as Health from "../../src/schema/Health.ts"
import { version as release } from "../../src/schema/Release.ts"
import type { Report, ReportRequest } from "../../src/schema/Report.ts"
import type { Me, TingOutcome } from "../../src/schema/Session.ts"
import type { TableName } from "../../src/schema/Telemetry.ts"
import type { SentTing, Subscription, TingRequest } from "../../src/schema/Ting.ts"

/** The contract's endpoint of each call. */
interface Contract {
  readonly login: typeof login
  readonly refresh: typeof refresh
  readonly logout: typeof logout
  readonly me: typeof me
  readonly subscribe: typeof subscribe
  readonly ting: typeof send
  readonly report: typeof submit
  readonly telemetry: typeof accept
  readonly iam: typeof iam
  readonly version: typeof version
  readonly healthz: typeof healthz
  readonly readyz: typeof readyz
}

/** The codes that an endpoint and its middleware declare. */
type Declared<Endpoint extends HttpApiEndpoint.HttpApiEndpoint.Any> = Extract<
  HttpApiEndpoint.HttpApiEndpoint.Error<Endpoint>,
  { readonly code: string }
>["code"]
type AllDeclared = { readonly [Name in EndpointName]: Declared<Contract[Name]> }

it("The table of calls has a row for every call of the contract but the webhook, and no further row", () => {
  const contract: Array<string> = []
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, group }) => {
      if (group.identifier !== "webhooks") contract.push(`${endpoint.method} ${endpoint.path}`)
    }
  })
  const rows = Object.values(endpoints).map(({ method, path }) => `${method} ${path}`)
  expect(rows.toSorted()).toEqual(contract.toSorted())
})

it("Each call names exactly the failures that the contract and its middleware declare", () => {
  expectTypeOf<keyof Contract>().toEqualTypeOf<EndpointName>()
  expectTypeOf<{ readonly [Name in EndpointName]: EndpointFailures[Name] }>().toEqualTypeOf<AllDeclared>()
  // These are real codes, also of the middleware.
  expectTypeOf<"slt_rejected" | "idempotency_key_required">().toExtend<AllDeclared["login"]>()
  // A program could not distinguish a code that the service and the client share.
  expect(Object.keys(failureTable).filter((code) => Object.hasOwn(clientErrorTable, code))).toEqual([])
})

it("The plain types hold the values of the service's schemas", () => {
  expectTypeOf<Me>().toExtend<Plain.Me>()
  expectTypeOf<Plain.TingOutcome>().toEqualTypeOf<TingOutcome>()
  expectTypeOf<Plain.Subscription>().toEqualTypeOf<Subscription>()
  expectTypeOf<Plain.Ting>().toEqualTypeOf<SentTing>()
  expectTypeOf<Report>().toExtend<Plain.Report>()
  expectTypeOf<Descriptors.IamDescriptor>().toExtend<Plain.IamDescriptor>()
  expectTypeOf<Descriptors.Version>().toExtend<Plain.Version>()
  expectTypeOf<Health.Health>().toExtend<Plain.Health>()
  expectTypeOf<Health.ReadinessAnswer>().toExtend<Plain.Readiness>()
  expectTypeOf<Plain.ClientTable>().toEqualTypeOf<TableName>()
  expectTypeOf<Details>().toExtend<Plain.ErrorDetails>()
  expectTypeOf<keyof Plain.TingRequest>().toEqualTypeOf<keyof TingRequest>()
  expectTypeOf<keyof Plain.ReportRequest>().toEqualTypeOf<keyof ReportRequest>()
  type Open = "data" | "metadata"
  expectTypeOf<Omit<Plain.TingRequest, Open>>().toExtend<Omit<TingRequest, Open>>()
  expectTypeOf<Omit<Plain.ReportRequest, "context">>().toExtend<Omit<ReportRequest, "context">>()
})

it("The client knows the version of the release", () => {
  expect(packageVersion).toBe(release)
})
