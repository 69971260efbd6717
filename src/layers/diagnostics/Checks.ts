/** All checks of an installation, run concurrently, each with a time limit. */
import * as HttpClient from "@effect/platform/HttpClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { SettingsValues } from "../../services/Settings.ts"
import { type Environment, readSettings, type SettingProblem } from "../settings/Settings.ts"
import { Connections, OutboundProxy } from "../upstream/Connections.ts"
import { checkCollector } from "./CollectorCheck.ts"
import { checkDatabase } from "./DatabaseCheck.ts"
import { checkExposure } from "./ExposureCheck.ts"
import { type Check, type Finding, pass, skip, withTimeout } from "./Finding.ts"
import { checkIam } from "./IamCheck.ts"
import { checkOutboundProxy } from "./OutboundProxyCheck.ts"
import { checkProxy } from "./ProxyCheck.ts"
import { checkServer } from "./ServerCheck.ts"
import { checkSettings } from "./SettingsCheck.ts"
import { checkTables } from "./TablesCheck.ts"
import { checkTing } from "./TingCheck.ts"
import { checkTracker } from "./TrackerCheck.ts"

/** The settings check its form; only a delivery can verify it. */
const webhookSecret = ({ iam }: SettingsValues): Finding =>
  pass(
    "webhook secret",
    `valid form, key version ${[...iam.webhookSecrets.keys()].join(" and ")}; only a delivery can verify it`
  )

/** Runs a check, or skips it in one line when its settings are wrong; the settings' own findings say why. */
const whenConfigured = (
  problems: ReadonlyArray<SettingProblem>,
  name: string,
  needs: ReadonlyArray<string>,
  check: Check
): Check => {
  const bad = needs.filter((variable) => problems.some((problem) => problem.name === variable))
  return bad.length === 0
    ? withTimeout(name, "run the check again", check)
    : Effect.succeed([skip(name, `needs ${bad.join(" and ")}`)])
}

const checksOf = (
  client: HttpClient.HttpClient,
  settings: SettingsValues,
  problems: ReadonlyArray<SettingProblem>
): ReadonlyArray<Check> => {
  const broken = (variable: string) => problems.some(({ name }) => name === variable)
  return [
    withTimeout("settings", "run the check again", checkExposure(settings, broken)),
    whenConfigured(
      problems,
      "database",
      ["MUSIC_DATABASE_PATH", "MUSIC_DATABASE_URL"],
      checkDatabase(settings)
    ),
    whenConfigured(
      problems,
      "iam",
      ["MUSIC_IAM_URL", "MUSIC_IAM_APP_ID"],
      checkIam(client, settings, broken("MUSIC_IAM_APP_SECRET"))
    ),
    whenConfigured(
      problems,
      "webhook secret",
      [
        "MUSIC_IAM_WEBHOOK_SECRET",
        "MUSIC_IAM_WEBHOOK_KEY_VERSION",
        "MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET",
        "MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION"
      ],
      Effect.succeed([webhookSecret(settings)])
    ),
    whenConfigured(problems, "ting", ["MUSIC_TING_URL"], checkTing(client, settings)),
    whenConfigured(problems, "tables", ["MUSIC_TABLES_URL"], checkTables(client, settings, broken)),
    whenConfigured(
      problems,
      "tracker",
      ["MUSIC_GITHUB_TOKEN", "MUSIC_GITHUB_REPOSITORY", "MUSIC_GITHUB_URL"],
      checkTracker(client, settings)
    ),
    whenConfigured(
      problems,
      "proxy",
      ["MUSIC_BIND", "MUSIC_RATE_LIMIT", "MUSIC_TRUSTED_PROXIES"],
      Effect.succeed([checkProxy(settings)])
    ),
    whenConfigured(problems, "server", ["MUSIC_BIND"], checkServer(client, settings, broken)),
    withTimeout("collector", "run the check again", checkCollector(client, settings))
  ]
}

/** Never fails, never prints a credential, and takes at most about 20 seconds. `done` is called after each check. */
export const runChecks = (
  environment: Environment,
  done: (finished: number, all: number) => Effect.Effect<void> = () => Effect.void
): Effect.Effect<ReadonlyArray<Finding>> =>
  Effect.gen(function* () {
    const { problems, settings } = readSettings(environment)
    return yield* Effect.provide(runChecksOf(environment, settings, problems, done), connections(settings))
  })

/** The server at the listen address is this machine's, and is called without a proxy. */
const connections = ({ bind, outboundProxy }: SettingsValues) =>
  Layer.provide(
    Connections,
    Layer.succeed(OutboundProxy, { ...outboundProxy, except: [...outboundProxy.except, bind.host] })
  )

const runChecksOf = (
  environment: Environment,
  settings: SettingsValues,
  problems: ReadonlyArray<SettingProblem>,
  done: (finished: number, all: number) => Effect.Effect<void>
) =>
  Effect.gen(function* () {
    const client = yield* HttpClient.HttpClient
    const checks = checksOf(client, settings, problems)
    let finished = 0
    const findings = yield* Effect.forEach(
      checks,
      (check) =>
        Effect.tap(check, () =>
          Effect.suspend(() => {
            finished += 1
            return done(finished, checks.length)
          })
        ),
      { concurrency: "unbounded" }
    )
    return [
      ...checkSettings(environment, problems),
      ...checkOutboundProxy(settings, environment),
      ...findings.flat()
    ]
  })
