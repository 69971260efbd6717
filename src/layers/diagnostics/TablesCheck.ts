/** Checks that the table service is reachable and accepts our keys. Stores nothing. */
import { randomUUID } from "node:crypto"
import * as HttpClient from "@effect/platform/HttpClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { clientTables, type TableName } from "../../schema/Telemetry.ts"
import { Settings, type SettingsValues } from "../../services/Settings.ts"
import { type TableRecord, Tables } from "../../services/Tables.ts"
import { tableKeyNames } from "../settings/SettingsTable.ts"
import { TablesFromSettings } from "../tables/HttpTables.ts"
import { envelopeFailure } from "../upstream/ErrorEnvelope.ts"
import { makeUpstream } from "../upstream/Upstream.ts"
import { readJson } from "../upstream/UpstreamResponse.ts"
import {
  type Check,
  callTimeoutSeconds,
  type Finding,
  fail,
  fixOfCall,
  pass,
  skip,
  summarizeFailure,
  warn
} from "./Finding.ts"

const Health = Schema.Struct({ status: Schema.Literal("ok") })

/** Over the size limit (table-service.md 2): the service checks the key first, and then refuses the record for its size. */
const tooLarge = JSON.stringify({ probe: "x".repeat(270_336) })

const lineOf = (table: TableName): string => `table ${table}`

const verdict = (table: TableName, code: string | undefined): Finding => {
  const variable = tableKeyNames[table]
  switch (code) {
    case "size_exceeded":
      return pass(lineOf(table), "the service accepts the key")
    case "unauthorized":
      return fail(
        lineOf(table),
        "the service does not know the key: wrong, rotated, or the table is retired",
        `set ${variable} to the current key of the table ${table}`
      )
    case undefined:
      return warn(
        lineOf(table),
        "the service stored a record that should have been too large",
        "inform the operator of the table service"
      )
    default:
      return warn(lineOf(table), `not verifiable now: the service answered ${code}`, "run the check again")
  }
}

export const checkTables = (
  client: HttpClient.HttpClient,
  settings: SettingsValues,
  broken: (variable: string) => boolean
): Check =>
  Option.match(settings.tables, {
    onNone: () =>
      Effect.succeed([
        skip("tables", "off: no telemetry is shipped", "to ship it, set MUSIC_TABLES_URL and table keys")
      ]),
    onSome: ({ keys, url }) => {
      const open = clientTables.filter((name) => keys.has(name))
      const unset = clientTables
        .filter((name) => !keys.has(name) && !broken(tableKeyNames[name]))
        .map((name) => skip(lineOf(name), "off: it has no key", `to turn it on, set ${tableKeyNames[name]}`))

      const health = makeUpstream(client, {
        dependency: "tables",
        url,
        timeoutSeconds: callTimeoutSeconds,
        maxResponseBytes: 65_536,
        failureOf: envelopeFailure({ requestIdHeader: "x-request-id" })
      })({ operation: "check", method: "GET", path: "/api/health", headers: {}, read: readJson(Health) })

      const probe = Effect.gen(function* () {
        const tables = yield* Tables
        const eventAt = yield* Clock.currentTimeMillis
        const records = yield* Effect.sync(() =>
          open.map((table): TableRecord => ({ table, recordId: randomUUID(), eventAt, json: tooLarge }))
        )
        const { refused } = yield* tables.write(records)
        return records.map(({ recordId, table }) =>
          verdict(table, refused.find((entry) => entry.recordId === recordId)?.code)
        )
      }).pipe(
        Effect.provide(
          TablesFromSettings.pipe(
            Layer.provide(
              Layer.merge(Layer.succeed(Settings, settings), Layer.succeed(HttpClient.HttpClient, client))
            )
          )
        ),
        Effect.catchAll((failure) =>
          Effect.succeed(
            open.map((name) =>
              warn(lineOf(name), `not verifiable now: ${summarizeFailure(failure)}`, "run the check again")
            )
          )
        )
      )

      // The keys are sent only after the health route identified the service.
      return Effect.matchEffect(health, {
        onSuccess: () =>
          Effect.map(probe, (found) => [pass("tables", `reached at ${url}`), ...found, ...unset]),
        onFailure: (failure) =>
          Effect.succeed([
            failure._tag === "Refused" && failure.status === 503
              ? warn(
                  "tables",
                  `the service is not ready: ${summarizeFailure(failure)}`,
                  "run the check again"
                )
              : fail(
                  "tables",
                  failure._tag === "NotExecuted"
                    ? `no response from ${url} (${failure.reason})`
                    : `the service at ${url} is not the table service: ${summarizeFailure(failure)}`,
                  fixOfCall(
                    failure,
                    "set MUSIC_TABLES_URL to the address of the table service, and allow this machine to connect to it"
                  )
                ),
            ...open.map((name) => skip(lineOf(name), "the service cannot be reached")),
            ...unset
          ])
      })
    }
  })
