/**
 * Two instances of the service in memory, over one database and the same simulated upstreams, under a clock that can be moved. What a
 * request left behind is read in the database and at the upstreams.
 */
import { join } from "node:path"
import Driver from "better-sqlite3"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import { makeOffsetClock, type OffsetClock } from "../../../sandbox/OffsetClock.ts"
import {
  repositoryName,
  settingsFor,
  type SimulatedUpstreams,
  startUpstreams,
  tingTypes
} from "../../../sandbox/SimulatedUpstreams.ts"
import { seedEnvironment, type SeededEnvironment } from "../../../sandbox/upstreams/iam/Seed.ts"
import { Admin, makeBackend, parts } from "../../../src/Backend.ts"
import { deliveryWith } from "../../../src/layers/delivery/Delivery.ts"
import { Drain } from "../../../src/services/Drain.ts"
import { Settings } from "../../../src/services/Settings.ts"
import { startCollector } from "../../observability/Collector.ts"
import { everything, otlpTo } from "../../observability/Observed.ts"
import { type InMemoryResponse, InMemoryServer, inMemoryServer } from "../../support/InMemoryServer.ts"
import { keptConsole } from "../../support/Sandbox.ts"
import { temporaryFolder } from "../../world/SqliteTemplate.ts"

/** Names may repeat. */
export type HeaderLines = ReadonlyArray<readonly [name: string, value: string]>

export interface Sent {
  readonly method?: string
  readonly path: string
  readonly headers?: HeaderLines
  readonly body?: string | Buffer
}

export type Send = (request: Sent) => Promise<InMemoryResponse>

type Row = Readonly<Record<string, unknown>>

export interface Bench {
  readonly world: SimulatedUpstreams
  readonly clock: OffsetClock
  readonly first: Send
  readonly second: Send
  /** A further testing environment with the same people and applications. */
  readonly otherEnvironment: SeededEnvironment
  readonly databasePath: string
  /** Runs a statement on a connection of another program. */
  readonly query: (statement: string, ...values: ReadonlyArray<unknown>) => ReadonlyArray<Row>
  readonly metrics: () => Promise<string>
  readonly log: ReadonlyArray<string>
  readonly spans: () => string
}

/** A process that is never late: the delay of its event loop is the machine's time. */
const neverLate = () => ({ isOverloaded: () => false, mean: () => 0, stop: () => undefined })

const sendTo =
  ({ send }: Context.Tag.Service<InMemoryServer>): Send =>
  ({ headers = [], ...request }) => {
    const lists = new Map<string, Array<string>>()
    for (const [name, value] of [
      ...(request.body === undefined ? [] : [["Content-Type", "application/json"] as const]),
      ...headers
    ])
      lists.set(name.toLowerCase(), [...(lists.get(name.toLowerCase()) ?? []), value])
    // The library takes the values of a repeated name as a list.
    const given = Object.fromEntries(
      [...lists].map(([name, values]) => [name, values.length === 1 ? (values[0] ?? "") : values])
    ) as Readonly<Record<string, string>>
    return send("198.51.100.7", { ...request, headers: given })
  }

/** Runs attacks on a new bench; everything ends with it. */
export const withBench = <A>(use: (bench: Bench) => Promise<A>): Promise<A> =>
  Effect.gen(function* () {
    const databasePath = join(yield* temporaryFolder, "music.sqlite")
    const clock = makeOffsetClock()
    const world = yield* startUpstreams(clock.now)
    const otherEnvironment = seedEnvironment(world.iam.controls, "another environment")
    for (const type of tingTypes) world.ting.registerType(otherEnvironment.environmentId, "music", type)
    const collector = yield* startCollector()
    const defaults = settingsFor(
      world,
      { bind: { host: "", port: 0 }, databasePath, logLevel: LogLevel.Debug, logFormat: "json" },
      { MUSIC_WEB_ORIGINS: "https://app.music.example", MUSIC_RATE_LIMIT: "off" }
    )
    const traces = Option.some({
      ...otlpTo(`${collector.url}/v1/traces`),
      sampler: everything,
      intervalMillis: 5_000
    })
    const settings = {
      ...defaults,
      openTelemetry: { ...defaults.openTelemetry, traces },
      adminBind: Option.some({ host: "127.0.0.1", port: 0 }),
      iam: { ...defaults.iam, callsPerMinute: 10_000 }
    }
    const { console, lines } = keptConsole()
    const store = yield* Layer.build(
      parts.store.pipe(
        Layer.provide(Drain.Default),
        Layer.provide(Layer.succeed(Settings, settings)),
        Layer.provide(clock.layer)
      )
    )
    const instance = Layer.build(
      makeBackend({
        ...parts,
        store: Layer.succeedContext(store),
        server: inMemoryServer({ startDelay: neverLate }),
        delivery: deliveryWith({ writeSpacing: 0, hourlyWrites: 100_000, ordinaryHourlyWrites: 100_000 })
      }).pipe(Layer.provide(Layer.succeed(Settings, settings)), Layer.provide(clock.layer))
    ).pipe(Effect.withConsole(console))
    const first = yield* instance
    const second = yield* instance
    const admin = Option.getOrElse(yield* Effect.provide(Admin, first), () => "")
    const database = yield* Effect.acquireRelease(
      Effect.sync(() => new Driver(databasePath)),
      (opened) => Effect.sync(() => opened.close())
    )
    const bench: Bench = {
      world,
      clock,
      first: sendTo(Context.get(first, InMemoryServer)),
      second: sendTo(Context.get(second, InMemoryServer)),
      otherEnvironment,
      databasePath,
      query: (statement, ...values) => {
        const prepared = database.prepare(statement)
        return prepared.reader ? prepared.all(...values) : [{ changed: prepared.run(...values) }]
      },
      metrics: async () => (await fetch(`${admin}/metrics`)).text(),
      log: lines,
      spans: () => collector.received.map(({ body }) => body.toString("utf8")).join("\n")
    }
    return yield* Effect.promise(() => use(bench))
  }).pipe(Effect.scoped, Effect.runPromise)

/** Like `401 unauthenticated`, or `200`. */
export const verdictOf = ({ status, text }: InMemoryResponse): string => {
  const code = /"code":"([a-z_]+)"/.exec(text)?.[1]
  return code === undefined || status < 400 ? String(status) : `${status} ${code}`
}

export interface Account {
  readonly accessToken: string
  readonly refreshToken: string
}

let keys = 0
/** A key that no other request of the run uses. */
export const newKey = (): HeaderLines => {
  keys += 1
  return [["Idempotency-Key", `attack-key-${String(keys).padStart(12, "0")}`]]
}

export const selecting = (secret: string | undefined): HeaderLines =>
  secret === undefined ? [] : [["X-Testing-Environment-Key", secret]]

export const bearing = (token: string, organisation = "acme"): HeaderLines => [
  ["Authorization", `Bearer ${token}`],
  ["X-Org-ID", organisation]
]

/** A short-lived token of production. */
export const sltOf = ({ world }: Bench, actor: string, appId = "music"): string =>
  world.iam.controls.mintSlt("production", { appId, actor })

/** Logs an actor in; `secret` selects a testing environment. */
export const logIn = async (bench: Bench, actor = "si:deejay", secret?: string): Promise<Account> => {
  const answer = await bench.first({
    path: "/api/v1/auth/login",
    headers: [...newKey(), ...selecting(secret)],
    body: JSON.stringify({ slt: secret === undefined ? sltOf(bench, actor) : actor })
  })
  if (answer.status !== 200) throw new Error(`the login of ${actor} was ${answer.status} ${answer.text}`)
  const { access_token, refresh_token } = JSON.parse(answer.text)
  return { accessToken: access_token, refreshToken: refresh_token }
}

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
    plane === "production" &&
      JSON.stringify(query("SELECT accepted FROM spool_counts WHERE table_name <> 'musicbackend'")),
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

/** All that the service has written anywhere but in its answers, by place. */
export const writtenBy = async (bench: Bench): Promise<ReadonlyMap<string, string>> => {
  const { log, metrics, query, spans, world } = bench
  const tables = query("SELECT name FROM sqlite_master WHERE type = 'table'").map(({ name }) => String(name))
  return new Map([
    ...tables.map((name): [string, string] => [
      `the table ${name}`,
      JSON.stringify(query(`SELECT * FROM ${name}`))
    ]),
    ["the log", log.join("\n")],
    ["the metrics", await metrics()],
    ["a span", spans()],
    ["an issue", JSON.stringify(world.tracker.issues(repositoryName))],
    ["the service's own telemetry", JSON.stringify(world.tables.rows("musicbackend"))]
  ])
}

/** The oracle of every attack: no credential that was ever made is written anywhere. */
export const findCredentials = async (bench: Bench): Promise<ReadonlyArray<string>> => {
  const credentials = bench.world.minted()
  return [...(await writtenBy(bench))].flatMap(([place, text]) =>
    credentials
      .filter((secret) => text.includes(secret))
      .map((secret) => `${place} has ${secret.slice(0, 8)}…`)
  )
}

/** An attack on identity or content; what broke, each with what is needed to play it again. */
export interface IdentityAttack {
  readonly name: string
  readonly play: (bench: Bench, seed: number, count: number) => Promise<ReadonlyArray<string>>
}
