/**
 * Two instances of the service in this process, over one database and the same simulated upstreams, under a clock that can be moved.
 * For attacks on identity and content: they read what a request left behind in the database and at the upstreams.
 */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import Driver from "better-sqlite3"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { makeOffsetClock, type OffsetClock } from "../../../sandbox/OffsetClock.ts"
import { settingsFor, type SimulatedUpstreams, startUpstreams } from "../../../sandbox/SimulatedUpstreams.ts"
import { seedEnvironment, type SeededEnvironment } from "../../../sandbox/upstreams/iam/Seed.ts"
import { makeBackend, Admin, Listening, parts } from "../../../src/Backend.ts"
import { deliveryWith } from "../../../src/layers/delivery/Delivery.ts"
import { makeStore } from "../../../src/layers/store/repositories/Repositories.ts"
import { openDatabase } from "../../../src/layers/store/sqlite/SqliteStore.ts"
import { Settings, type SettingsValues } from "../../../src/services/Settings.ts"
import { Store } from "../../../src/services/Store.ts"
import { startCollector } from "../../observability/Collector.ts"
import { everything, otlpTo } from "../../observability/Observed.ts"
import { keptConsole } from "../../support/Sandbox.ts"
import { open, readAnswers, type Target, type WireAnswer } from "./Wire.ts"

export type HeaderLines = ReadonlyArray<readonly [name: string, value: string]>

export interface Sent {
  readonly method?: string
  readonly path: string
  /** In this order; names may repeat. One character a byte. */
  readonly headers?: HeaderLines
  readonly body?: string | Uint8Array
}

/** The webhook secret that was replaced; the service still accepts it, under its own version. */
export const previousSecret = "previous-webhook-secret-0123456789abcdef"
export const previousKeyVersion = 7

export interface Bench {
  readonly world: SimulatedUpstreams
  readonly clock: OffsetClock
  /** Both instances. */
  readonly first: Target
  readonly second: Target
  /** `/metrics` of the first. */
  readonly admin: Target
  /** A further testing environment with the same people and applications. */
  readonly otherEnvironment: SeededEnvironment
  readonly databasePath: string
  readonly log: ReadonlyArray<string>
  /** What the collector of traces received; nothing unless the bench is traced. */
  readonly traces: () => string
  /** Runs a statement on a connection of another program. */
  readonly query: (
    statement: string,
    ...values: ReadonlyArray<unknown>
  ) => ReadonlyArray<Record<string, unknown>>
}

export const portOf = (url: string): Target => ({ port: Number(new URL(url).port) })

/** One request on a connection of its own. Rejects without a complete answer. */
export const send = async (
  target: Target,
  { body, headers = [], method, path }: Sent
): Promise<WireAnswer> => {
  const line = await open(target)
  const bytes = body === undefined ? undefined : Buffer.from(body)
  const given: HeaderLines = [
    ["Host", "music.example"],
    ...(bytes === undefined ? [] : ([["Content-Length", String(bytes.length)]] as const)),
    ...(bytes === undefined || headers.some(([name]) => name.toLowerCase() === "content-type")
      ? []
      : ([["Content-Type", "application/json"]] as const)),
    ...headers
  ]
  const head = [
    `${method ?? (bytes === undefined ? "GET" : "POST")} ${path} HTTP/1.1`,
    ...given.map(([name, value]) => `${name}: ${value}`)
  ]
  line.socket.write(Buffer.from(`${head.join("\r\n")}\r\n\r\n`, "latin1"))
  if (bytes !== undefined) line.socket.write(bytes)
  await line.until(() => readAnswers(line.received()).answers.length > 0)
  line.socket.destroy()
  const [answer] = readAnswers(line.received()).answers
  if (answer === undefined) throw new Error(`no answer to ${head[0]}: ${line.received()}`)
  return answer
}

/** Like `401 unauthenticated`, or `200`. */
export const verdictOf = ({ body, status }: WireAnswer): string => {
  const code = /"code":"([a-z_]+)"/.exec(body)?.[1]
  return code === undefined || status < 400 ? String(status) : `${status} ${code}`
}

/** Runs an attack on a new bench; everything ends with it. */
export const withBench = <A>(
  use: (bench: Bench) => Promise<A>,
  { traced = false }: { readonly traced?: boolean } = {}
): Promise<A> =>
  Effect.gen(function* () {
    const folder = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "music-attacks-"))),
      (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
    )
    const databasePath = join(folder, "music.sqlite")
    const clock = makeOffsetClock()
    const world = yield* startUpstreams(clock.now)
    const otherEnvironment = seedEnvironment(world.iam.controls, "another environment")
    for (const type of ["music.trigger.fired", "music.trigger.expired"])
      world.ting.registerType(otherEnvironment.environmentId, "music", type)
    const defaults = settingsFor(world, {
      bind: { host: "127.0.0.1", port: 0 },
      databasePath,
      logLevel: LogLevel.Debug,
      logFormat: "json"
    })
    const collector = yield* startCollector()
    const settings: SettingsValues = {
      ...defaults,
      openTelemetry: {
        ...defaults.openTelemetry,
        traces: traced
          ? Option.some({
              ...otlpTo(`${collector.url}/v1/traces`),
              sampler: everything,
              intervalMillis: 5_000
            })
          : Option.none()
      },
      rateLimit: false,
      adminBind: Option.some({ host: "127.0.0.1", port: 0 }),
      iam: {
        ...defaults.iam,
        callsPerMinute: 10_000,
        webhookSecrets: new Map([
          ...defaults.iam.webhookSecrets,
          [previousKeyVersion, Redacted.make(previousSecret)]
        ])
      }
    }
    const { console, lines } = keptConsole()
    const store = yield* Effect.flatMap(openDatabase(databasePath), makeStore)
    const instance = Effect.gen(function* () {
      const context = yield* Layer.build(
        makeBackend({
          ...parts,
          store: Layer.succeed(Store, store),
          delivery: deliveryWith({ writeSpacing: 0, hourlyWrites: 100_000, ordinaryHourlyWrites: 100_000 })
        }).pipe(Layer.provide(Layer.succeed(Settings, settings)), Layer.provide(clock.layer))
      )
      const admin = yield* Effect.provide(Admin, context)
      return {
        server: portOf((yield* Effect.provide(Listening, context)).url),
        admin: portOf(Option.getOrElse(admin, () => ""))
      }
    }).pipe(Effect.withConsole(console))
    const first = yield* instance
    const second = yield* instance
    const database = yield* Effect.acquireRelease(
      Effect.sync(() => new Driver(databasePath)),
      (opened) => Effect.sync(() => opened.close())
    )
    return yield* Effect.promise(() =>
      use({
        world,
        clock,
        first: first.server,
        second: second.server,
        admin: first.admin,
        otherEnvironment,
        databasePath,
        log: lines,
        traces: () => collector.received.map(({ body }) => body.toString("utf8")).join("\n"),
        query: (statement, ...values) => {
          const prepared = database.prepare(statement)
          if (prepared.reader) return prepared.all(...values)
          prepared.run(...values)
          return []
        }
      })
    )
  }).pipe(Effect.scoped, Effect.runPromise)

export interface Account {
  readonly publicId: string
  readonly accessToken: string
  readonly refreshToken: string
}

/** Logs an actor in at an instance; `secret` selects a testing environment. */
export const logIn = async (
  { first, world }: Bench,
  publicId = "si:deejay",
  secret?: string
): Promise<Account> => {
  const answer = await send(first, {
    path: "/api/v1/auth/login",
    headers: [["Idempotency-Key", newKey()], ...selecting(secret)],
    body: JSON.stringify({
      slt:
        secret === undefined
          ? world.iam.controls.mintSlt("production", { appId: "music", actor: publicId })
          : publicId
    })
  })
  if (answer.status !== 200) throw new Error(`the login of ${publicId} was ${answer.status} ${answer.body}`)
  const { access_token, refresh_token } = JSON.parse(answer.body)
  return { publicId, accessToken: access_token, refreshToken: refresh_token }
}

let keys = 0
/** A key that no other request of the run uses. */
export const newKey = (): string => {
  keys += 1
  return `attack-key-${String(keys).padStart(12, "0")}`
}

export const selecting = (secret: string | undefined): HeaderLines =>
  secret === undefined ? [] : [["X-Testing-Environment-Key", secret]]

export const bearing = (token: string, organisation = "acme"): HeaderLines => [
  ["Authorization", `Bearer ${token}`],
  ["X-Org-ID", organisation]
]

/** What requests of a plane have effect on, as text: equal before and after means that nothing happened. */
export const effectsOf = ({ query, world }: Bench, plane: string): string => {
  const rows = (table: string, columns: string) =>
    JSON.stringify(query(`SELECT ${columns} FROM ${table} WHERE plane = ? ORDER BY 1, 2`, plane))
  const { accessTokens, families, proofs, refreshTokens, slts } = world.iam.controls.plane(plane)
  const count = <A>(of: Iterable<A>, holds: (one: A) => boolean): number => [...of].filter(holds).length
  return [
    rows("recipients", "organisation, public_id, active, changed_at"),
    rows("login_outcomes", "upstream_key, subscribed"),
    rows("reports", "id, reporter"),
    rows("webhook_inbox", "event_id, event_type"),
    plane === "production"
      ? JSON.stringify(
          query("SELECT table_name, accepted FROM spool_counts WHERE table_name <> 'musicbackend'")
        )
      : "",
    accessTokens.size,
    count(accessTokens.values(), ({ revoked }) => revoked),
    refreshTokens.size,
    count(refreshTokens.values(), ({ consumed }) => consumed),
    count(families.values(), ({ status }) => status !== "active"),
    count(slts.values(), ({ spent }) => spent),
    proofs.size,
    ...["si:deejay", "si:lyra", "c:ana"].map((actor) => world.ting.inbox(plane, "acme", actor).length)
  ].join("\n")
}
