/** All checks of an installation, for `music-backend check`. */
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { formatAddress } from "../../services/Addresses.ts"
import { Settings, type SettingsValues } from "../../services/Settings.ts"
import { settingEntries } from "../../services/settings/SettingsTable.ts"
import {
  type Environment,
  proxyVariables,
  readSettings,
  type SettingProblem,
  unknownVariables
} from "../settings/Settings.ts"
import { TablesFromSettings } from "../tables/HttpTables.ts"
import { Connections } from "../upstream/Connections.ts"
import { databaseProbes } from "./DatabaseProbes.ts"
import { fail, type Finding, pass, probe, runProbes, skip, warn } from "./Probe.ts"
import { upstreamProbes } from "./UpstreamProbes.ts"

const checkSettings = (environment: Environment, problems: ReadonlyArray<SettingProblem>) => {
  const bad = problems.map(({ name, problem }) => {
    const entry = settingEntries.find((one) => one.name === name)
    const form = entry && `set ${name} (${entry.meaning}); .env.example shows its form and default`
    return fail(`${name} ${problem}`, form ?? `correct or remove ${name}`)
  })
  const unknown = unknownVariables(environment).map((name) =>
    warn(`${name} is not a setting`, "correct its name, or remove it")
  )
  const good = bad.length === 0 ? [pass("every value has a valid form")] : []
  return [...good, ...bad, ...unknown].map((verdict) => ({ name: "settings", ...verdict }))
}

/** What a server publishes of its settings. */
const Descriptor = Schema.Struct({
  iam_url: Schema.String,
  app_id: Schema.String,
  org_id: Schema.String,
  ting_url: Schema.String
})

/** The server that runs at the listen address: it may be another one, or run with earlier settings. */
const checkServer = ({ bind, iam, organisation, ting }: SettingsValues, isBad: (name: string) => boolean) => {
  // A wildcard is reached at this machine.
  const address = formatAddress(bind.host, bind.port)
  return HttpClient.get(`http://${address}/api/v1/iam`).pipe(
    Effect.flatMap(HttpClientResponse.schemaBodyJson(Descriptor)),
    Effect.timeout("3 seconds"),
    Effect.map((found) => {
      const isSame = {
        MUSIC_IAM_URL: found.iam_url === iam.url,
        MUSIC_IAM_APP_ID: found.app_id === iam.applicationId,
        MUSIC_ORG_ID: found.org_id === organisation,
        MUSIC_TING_URL: found.ting_url === ting.url
      }
      const others = Object.entries(isSame).flatMap(([name, same]) => (same || isBad(name) ? [] : [name]))
      return others.length === 0
        ? pass(`runs at ${address} with these settings`)
        : fail(
            `the server at ${address} runs with another ${others.join(", ")}`,
            "restart it with these settings, or set MUSIC_BIND to the address of the server that has them"
          )
    }),
    // This machine is near, and reached without a proxy.
    Effect.provide(FetchHttpClient.layer),
    Effect.orElseSucceed(() => skip(`no music-backend answers at ${address}`))
  )
}

/** Never fails, never prints a credential, and takes at most about 20 seconds. */
export const runChecks = (environment: Environment): Effect.Effect<ReadonlyArray<Finding>> => {
  const { problems, settings } = readSettings(environment)
  const isBad = (setting: string) => problems.some(({ name }) => name === setting)
  const proxy = proxyVariables.find(isBad)
  /** At a bad address, and through a proxy with one, nothing can be asked. */
  const unasked = Effect.succeed(skip(""))
  return Effect.gen(function* () {
    const client = yield* HttpClient.HttpClient
    const server = yield* Effect.cached(isBad("MUSIC_BIND") ? unasked : checkServer(settings, isBad))
    const probes = [
      ...(yield* databaseProbes(settings, server)),
      ...(proxy === undefined
        ? yield* upstreamProbes(client, settings)
        : [probe("upstreams", [proxy], unasked)]),
      probe("server", ["MUSIC_BIND"], server)
    ]
    return [...checkSettings(environment, problems), ...(yield* runProbes(probes, isBad))]
  }).pipe(
    Effect.scoped,
    Effect.provide(TablesFromSettings),
    Effect.provideService(Settings, settings),
    // Undici does not start with a bad address of a proxy.
    Effect.provide(proxy === undefined ? Connections : FetchHttpClient.layer)
  )
}
