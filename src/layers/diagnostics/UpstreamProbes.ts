/** Probes of IAM, Ting, the table service and the tracker. They spend, store and file nothing. */
import { randomUUID } from "node:crypto"
import type { HttpClient } from "@effect/platform/HttpClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Record from "effect/Record"
import * as Schema from "effect/Schema"
import { clientTables, type TableName } from "../../schema/Telemetry.ts"
import { Production } from "../../services/Plane.ts"
import type { SettingsValues } from "../../services/Settings.ts"
import { tableKeyName } from "../../services/settings/SettingsTable.ts"
import { Tables } from "../../services/Tables.ts"
import { makeIamCall } from "../iam/IamCall.ts"
import { configurationTroubles, gitHubFailure } from "../tracker/GitHubFailures.ts"
import { gitHubTarget, issuesPath, toUpstreamRequest } from "../tracker/GitHub.ts"
import { envelopeFailure } from "../upstream/ErrorEnvelope.ts"
import { makeSend, makeUpstream } from "../upstream/Upstream.ts"
import { readJson } from "../upstream/UpstreamResponse.ts"
import { fail, pass, probe, type CheckProbe, skip, type Verdict, warn } from "./Probe.ts"

/** Seconds to wait for the answer to one call. */
const timeoutSeconds = 10

/**
 * Asks a service who it is, without a credential: only a service that answered as itself gets one. `times` has the time that it tells,
 * which is cut to the second, and this machine's, in milliseconds.
 */
const identify = <A, I>(
  client: HttpClient,
  dependency: "iam" | "ting" | "tables",
  { path, service, url }: { readonly service: string; readonly url: string; readonly path: string },
  schema: Schema.Schema<A, I>
) =>
  Effect.gen(function* () {
    const call = makeUpstream(client, {
      dependency,
      url,
      timeoutSeconds,
      maxResponseBytes: 65_536,
      failureOf: envelopeFailure({ requestIdHeader: "x-request-id" })
    })
    const answer = call({
      operation: "check",
      method: "GET",
      path,
      headers: dependency === "iam" ? { "silicon-iam-supported-api-versions": "v1" } : {},
      read: (response) =>
        Either.map(readJson(schema)(response), () => Date.parse(response.headers.date ?? ""))
    })
    const times = yield* Effect.cached(Effect.zip(answer, Clock.currentTimeMillis))
    const variable = `MUSIC_${dependency.toUpperCase()}_URL`
    const fix = `see that ${service} runs, set ${variable} to its address, and allow this machine to connect to it`
    const identified = probe(dependency, [variable], Effect.as(times, pass(`reached at ${url}`)), {
      unreached: [`no response from ${url}`, fix],
      otherwise: [`the service at ${url} does not answer as ${service}`, fix]
    })
    return { times, identified }
  })

const IamIdentity = Schema.Struct({ service: Schema.Literal("silicon-iam") })
const TingHealth = Schema.Struct({ service: Schema.Literal("ting"), status: Schema.Literal("ok") })
const TablesHealth = Schema.Struct({ status: Schema.Literal("ok") })

const Catalogue = Schema.Struct({
  endpoints: Schema.Array(Schema.Struct({ endpoint_id: Schema.String }))
})

/** Every application that IAM knows may read it (identity-service.md 10.1). A server rarely does, so IAM's limit for it has room. */
const cataloguePath = "/obo-access/applications/ting/endpoints"

const judgeCatalogue = ({ endpoints }: typeof Catalogue.Type): Verdict => {
  const listed = endpoints.map(({ endpoint_id }) => endpoint_id)
  const missing = ["subscriptions.register", "tings.send"].filter((id) => !listed.includes(id))
  return missing.length === 0
    ? pass("IAM lists the endpoints that tings need")
    : fail(
        `IAM does not list ${missing.join(" and ")} for ting`,
        "ask the operator of Ting to publish these endpoints at this IAM"
      )
}

/** Seconds: signatures and webhooks are refused from 60 and 300 on (identity-service.md 10.2, 11.2). */
const skew = { warn: 5, fail: 60 }

const judgeClock = ([theirs, ours]: readonly [theirs: number, ours: number]): Verdict => {
  if (Number.isNaN(theirs)) return skip("IAM tells no time")
  const ahead = Math.round((ours - (theirs + 500)) / 1_000)
  const distance = Math.abs(ahead)
  const found = `${distance} seconds ${ahead < 0 ? "behind" : "ahead of"} IAM's`
  if (distance <= skew.warn) return pass(found)
  const fix = "set the clock of this machine, and synchronise it with a time server (NTP)"
  return distance > skew.fail ? fail(found, fix) : warn(found, fix)
}

const iamProbes = (client: HttpClient, { iam }: SettingsValues) =>
  Effect.gen(function* () {
    const { applicationId, url } = iam
    const target = { service: "IAM", url, path: "/api/version" }
    const { identified, times } = yield* identify(client, "iam", target, IamIdentity)
    const call = makeIamCall(client, iam)
    const catalogue = yield* Effect.cached(
      call(Production(), { operation: "check", path: cataloguePath, read: readJson(Catalogue) })
    )
    const accepted = Effect.catchIf(
      Effect.asVoid(catalogue),
      (failure) => failure._tag === "Refused" && failure.status === 404,
      () => Effect.void
    )
    const refused = [
      "IAM refuses it",
      `set MUSIC_IAM_APP_SECRET to the secret of the application ${applicationId} (MUSIC_IAM_APP_ID), or create a new one at IAM`
    ] as const
    return [
      identified,
      probe("clock", ["iam"], Effect.map(times, judgeClock)),
      probe(
        "iam secret",
        ["iam", "MUSIC_IAM_APP_ID", "MUSIC_IAM_APP_SECRET"],
        Effect.as(accepted, pass(`IAM accepts it for the application ${applicationId}`)),
        { 401: refused, 403: refused }
      ),
      probe("ting at iam", ["iam secret"], Effect.map(catalogue, judgeCatalogue), {
        404: ["this IAM has no application ting", "set MUSIC_IAM_URL to the IAM that Ting uses"]
      })
    ]
  })

/** Over the size limit (table-service.md 2): the service checks the key first, and then refuses the record for its size. */
const tooLarge = JSON.stringify({ probe: "x".repeat(270_336) })

const judgeKey = (table: TableName, code: string | undefined): Verdict => {
  if (code === "size_exceeded") return pass("the service accepts the key")
  return code === "unauthorized"
    ? fail(
        "the service does not know the key: wrong, rotated, or the table is retired",
        `set ${tableKeyName(table)} to the current key of the table ${table}`
      )
    : warn(`not verifiable now: the service answered ${code ?? "no refusal"}`, "run the check again")
}

const tableProbes = (client: HttpClient, { tables: settings }: SettingsValues) =>
  Effect.gen(function* () {
    const off = (found: string, fix: string) => Effect.succeed(skip(`off: ${found}`, fix))
    if (Option.isNone(settings)) {
      const fix = "to ship it, set MUSIC_TABLES_URL and table keys"
      return [probe("tables", ["MUSIC_TABLES_URL"], off("no telemetry is shipped", fix))]
    }
    const { keys, url } = settings.value
    const { write } = yield* Tables
    const eventAt = yield* Clock.currentTimeMillis
    const target = { service: "the table service", url, path: "/api/health" }
    const { identified } = yield* identify(client, "tables", target, TablesHealth)
    return [
      identified,
      ...clientTables.map((table) => {
        const key = tableKeyName(table)
        const record = { table, recordId: randomUUID(), eventAt, json: tooLarge }
        const judged = Effect.map(write([record]), ({ refused: [one] }) => judgeKey(table, one?.code))
        return keys.has(table)
          ? probe(`table ${table}`, ["tables"], judged)
          : probe(`table ${table}`, [key], off("it has no key", `to turn it on, set ${key}`))
      })
    ]
  })

const trackerProbe = (client: HttpClient, { tracker }: SettingsValues): CheckProbe => {
  const needs = ["MUSIC_GITHUB_TOKEN", "MUSIC_GITHUB_REPOSITORY", "MUSIC_GITHUB_URL"]
  if (Option.isNone(tracker)) {
    const fix = "to file them, set MUSIC_GITHUB_TOKEN and MUSIC_GITHUB_REPOSITORY"
    return probe("tracker", needs, Effect.succeed(skip("off: reports are stored and not filed", fix)))
  }
  const { owner, repository, url } = tracker.value
  const name = `${owner}/${repository}`
  // With the right to file, GitHub refuses the missing title; without it, the token or the repository.
  const answer = makeSend(client, { ...gitHubTarget(url), timeoutSeconds })(
    toUpstreamRequest(tracker.value, {
      method: "POST",
      path: issuesPath(tracker.value),
      body: { body: "A check of permissions: this request is refused because it has no title." }
    })
  )
  const filed = Effect.filterOrFail(answer, ({ status }) => status === 422, gitHubFailure)
  const right = `the permission Issues: read and write on ${name}`
  const fixes = {
    bad_credentials: `create a token with ${right}, and set MUSIC_GITHUB_TOKEN`,
    permission: `give the token ${right}, or unarchive it`,
    not_found: `correct MUSIC_GITHUB_REPOSITORY, or give the token ${right}`,
    issues_disabled: `enable Issues in the settings of ${name}, or set MUSIC_GITHUB_REPOSITORY to another one`,
    moved: "set MUSIC_GITHUB_REPOSITORY to its new name"
  }
  return probe("tracker", needs, Effect.as(filed, pass(`the token can file issues in ${name}`)), {
    ...Record.map(fixes, (fix, code) => [configurationTroubles[code] ?? code, fix] as const),
    unreached: [`no response from ${url}`, "correct MUSIC_GITHUB_URL, or allow this machine to connect to it"]
  })
}

export const upstreamProbes = (client: HttpClient, settings: SettingsValues) =>
  Effect.gen(function* () {
    const ting = { service: "Ting", url: settings.ting.url, path: "/healthz" }
    return [
      ...(yield* iamProbes(client, settings)),
      // The health route only: any other call would spend a proof (notification-service.md 1, 2).
      (yield* identify(client, "ting", ting, TingHealth)).identified,
      ...(yield* tableProbes(client, settings)),
      trackerProbe(client, settings)
    ]
  })
