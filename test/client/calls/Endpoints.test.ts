/** The client's table of calls, compared with the contract of the service. */
import type * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApi from "@effect/platform/HttpApi"
import { describe, expect, expectTypeOf, it } from "vitest"
import { type EndpointFailures, type EndpointName, endpoints } from "../../../client/calls/Endpoints.ts"
import { clientErrorTable } from "../../../client/failures/ErrorTable.ts"
import { Api } from "../../../src/http/Api.ts"
import type { login, logout, me, refresh } from "../../../src/http/api/Auth.ts"
import type { iam, version } from "../../../src/http/api/Descriptors.ts"
import type { submit } from "../../../src/http/api/Reports.ts"
import type { healthz, readyz } from "../../../src/http/api/System.ts"
import type { accept } from "../../../src/http/api/Telemetry.ts"
import type { send, subscribe } from "../../../src/http/api/Tings.ts"
import { failureTable } from "../../../src/schema/FailureTable.ts"

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

/** The names of the contract's endpoints. */
const operationIds = {
  login: "auth.login",
  refresh: "auth.refresh",
  logout: "auth.logout",
  me: "auth.me",
  subscribe: "tings.subscribe",
  ting: "tings.send",
  report: "reports.submit",
  telemetry: "telemetry.accept",
  iam: "descriptors.iam",
  version: "descriptors.version",
  healthz: "system.healthz",
  readyz: "system.readyz"
} as const satisfies { readonly [Name in EndpointName]: `${string}.${NameInContract<Name>}` }

type NameInContract<Name extends EndpointName> = Contract[Name] extends HttpApiEndpoint.HttpApiEndpoint.Any
  ? HttpApiEndpoint.HttpApiEndpoint.Name<Contract[Name]>
  : never

/** The codes that an endpoint and its middleware declare. */
type Declared<Endpoint> = Endpoint extends HttpApiEndpoint.HttpApiEndpoint.Any
  ? HttpApiEndpoint.HttpApiEndpoint.Error<Endpoint> extends infer Failure
    ? Failure extends { readonly code: infer Code }
      ? Code
      : never
    : never
  : never

interface Row {
  readonly method: string
  readonly path: string
}

const contract = (() => {
  const rows = new Map<string, Row>()
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, group }) => {
      if (group.identifier === "webhooks") return
      const { method, path } = endpoint
      rows.set(`${group.identifier}.${endpoint.name}`, { method, path })
    }
  })
  return Object.fromEntries(rows)
})()

describe("The table of calls", () => {
  it("has a row for every call of the contract but the webhook, and no further row", () => {
    const rows = Object.entries(endpoints).map(([name, { method, path }]): readonly [string, Row] => [
      // The keys of the table are its names.
      operationIds[name as EndpointName],
      { method, path }
    ])
    expect(Object.fromEntries(rows)).toEqual(contract)
    expect(rows).toHaveLength(Object.keys(contract).length)
  })

  it("names exactly the failures that the contract and its middleware declare", () => {
    expectTypeOf<keyof EndpointFailures>().toEqualTypeOf<EndpointName>()
    expectTypeOf<keyof Contract>().toEqualTypeOf<EndpointName>()
    expectTypeOf<EndpointFailures["login"]>().toEqualTypeOf<Declared<Contract["login"]>>()
    expectTypeOf<EndpointFailures["refresh"]>().toEqualTypeOf<Declared<Contract["refresh"]>>()
    expectTypeOf<EndpointFailures["logout"]>().toEqualTypeOf<Declared<Contract["logout"]>>()
    expectTypeOf<EndpointFailures["me"]>().toEqualTypeOf<Declared<Contract["me"]>>()
    expectTypeOf<EndpointFailures["subscribe"]>().toEqualTypeOf<Declared<Contract["subscribe"]>>()
    expectTypeOf<EndpointFailures["ting"]>().toEqualTypeOf<Declared<Contract["ting"]>>()
    expectTypeOf<EndpointFailures["report"]>().toEqualTypeOf<Declared<Contract["report"]>>()
    expectTypeOf<EndpointFailures["telemetry"]>().toEqualTypeOf<Declared<Contract["telemetry"]>>()
    expectTypeOf<EndpointFailures["iam"]>().toEqualTypeOf<Declared<Contract["iam"]>>()
    expectTypeOf<EndpointFailures["version"]>().toEqualTypeOf<Declared<Contract["version"]>>()
    expectTypeOf<EndpointFailures["healthz"]>().toEqualTypeOf<Declared<Contract["healthz"]>>()
    expectTypeOf<EndpointFailures["readyz"]>().toEqualTypeOf<Declared<Contract["readyz"]>>()
  })

  it("reads real codes: a missing or a further code would be found", () => {
    expectTypeOf<"slt_rejected">().toExtend<Declared<Contract["login"]>>()
    // Of the middleware.
    expectTypeOf<"idempotency_key_required">().toExtend<Declared<Contract["login"]>>()
    expectTypeOf<Exclude<EndpointFailures["login"], "slt_rejected">>().not.toEqualTypeOf<
      Declared<Contract["login"]>
    >()
    expectTypeOf<EndpointFailures["iam"] | "spool_full">().not.toEqualTypeOf<Declared<Contract["iam"]>>()
  })

  it("shares no code between the service and the client: a program could not distinguish them", () => {
    expect(Object.keys(failureTable).filter((code) => Object.hasOwn(clientErrorTable, code))).toEqual([])
  })
})
