/** Real processes that reach other systems through a proxy, under certificates of a private authority, with their secrets in files. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { beforeAll, describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import { Effect } from "effect"
import { call } from "../../sandbox/HttpExchange.ts"
import {
  mintSlt,
  type SimulatedUpstreams,
  startUpstreams,
  upstreamEnvironment
} from "../../sandbox/SimulatedUpstreams.ts"
import { settingEntries } from "../../src/services/settings/SettingsTable.ts"
import { authorityFile, refusingPostgres, tlsFront, tunnelProxy } from "../world/Egress.ts"
import { folderOfFile } from "../world/Folder.ts"
import { build, ended, killedWithScope, start, urlOf } from "../world/Fleet.ts"

const folder = folderOfFile()

beforeAll(build)

const secrets = new Set(settingEntries.filter(({ secret }) => secret === true).map(({ name }) => name))

/** The same settings with each secret in a file. */
const inFiles = (environment: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(environment).map(([name, value]) => {
      if (!secrets.has(name)) return [name, value]
      const path = join(folder, name)
      writeFileSync(path, `${value}\n`, { mode: 0o600 })
      return [`${name}_FILE`, path]
    })
  )

const proxyPassword = "proxy-password"

/** Names that only the proxy knows, each with TLS in front of a simulator. */
const makeWorld = Effect.gen(function* () {
  const upstreams: SimulatedUpstreams = yield* startUpstreams(() => Date.now())
  const urls = {
    MUSIC_IAM_URL: upstreams.iam.url,
    MUSIC_TING_URL: upstreams.ting.url,
    MUSIC_TABLES_URL: upstreams.tables.url,
    MUSIC_GITHUB_URL: upstreams.tracker.url
  }
  const places = yield* Effect.forEach(Object.entries(urls), ([name, url], index) =>
    Effect.map(tlsFront(Number(new URL(url).port)), (port) => ({
      name,
      port,
      host: `host${index}.music.test`
    }))
  )
  const ports = Object.fromEntries(places.map(({ host, port }) => [`${host}:443`, port]))
  const proxy = yield* tunnelProxy(ports)
  const secureProxy = yield* tunnelProxy(ports, undefined, "localhost")
  const environment = {
    ...upstreamEnvironment(upstreams),
    ...Object.fromEntries(places.map(({ host, name }) => [name, `https://${host}`])),
    MUSIC_BIND: "127.0.0.1:0",
    MUSIC_DATABASE_PATH: join(folder, "music.sqlite"),
    HTTPS_PROXY: `http://operator:${proxyPassword}@127.0.0.1:${proxy.port}`
  }
  return { environment, hosts: places.map(({ host }) => host), secureProxy, upstreams }
})

const check = (environment: Readonly<Record<string, string>>) =>
  Effect.map(ended(start(process.execPath, ["dist/cli.js", "check"], environment)), ({ output }) => output)

const addressOf = (proxy: { readonly port: number }) =>
  `https://operator:${proxyPassword}@localhost:${proxy.port}`

describe("A process in a network with a proxy and a private authority", () => {
  it.scopedLive("reaches every upstream by an https proxy, with its secrets in files", function* () {
    const { environment, hosts, secureProxy: proxy, upstreams } = yield* makeWorld
    const server = yield* killedWithScope(() =>
      start(process.execPath, ["dist/main.js"], {
        ...inFiles({ ...environment, HTTPS_PROXY: addressOf(proxy) }),
        NODE_EXTRA_CA_CERTS: authorityFile
      })
    )
    const base = yield* Effect.promise(() => urlOf(server))
    const send = (path: string, body: unknown) =>
      call(`${base}${path}`, { method: "POST", body, headers: { "idempotency-key": "key-0123456789abcdef" } })
    expect((yield* send("/api/v1/auth/login", { slt: mintSlt(upstreams) })).status).toBe(200)
    expect((yield* send("/api/v1/reports", { message: "Playback stops." })).status).toBe(200)
    const played = { table: "musicclidaemon", events: [{ type: "playback.started" }] }
    expect((yield* send("/api/v1/telemetry", played)).status).toBe(204)
    yield* Effect.promise(() => server.says(/Report filed/))
    yield* Effect.repeat(Effect.sleep(20), { until: () => upstreams.tables.received().stored > 0 })
    expect(new Set(proxy.targets)).toEqual(new Set(hosts.map((host) => `${host}:443`)))
    expect(new Set(proxy.credentials)).toEqual(
      new Set([`Basic ${Buffer.from(`operator:${proxyPassword}`).toString("base64")}`])
    )
    for (const name of secrets)
      if (name in environment) expect(server.output()).not.toContain(Object(environment)[name])
    expect(server.output()).not.toContain(proxyPassword)
  })

  it.scopedLive("says in check what is trusted, and what to do otherwise", function* () {
    const { environment } = yield* makeWorld
    const postgres = yield* refusingPostgres
    const MUSIC_DATABASE_URL = `postgres://music:hidden@localhost:${postgres}/music?sslmode=verify-full`
    const misnamed = yield* tunnelProxy({}, undefined, "targets")
    const trusted = { NODE_EXTRA_CA_CERTS: authorityFile }
    /** Changed settings, the verdict on each upstream, and a pattern of the reason. */
    const cases = [
      [{ MUSIC_DATABASE_URL, ...trusted }, "PASS", ""],
      [{ MUSIC_DATABASE_URL }, "FAIL", "no connection: [A-Z_]*(SELF_SIGNED|UNABLE_TO)[A-Z_]*"],
      [
        { HTTPS_PROXY: addressOf(misnamed), ...trusted },
        "FAIL",
        "no connection: PROXY_ERR_TLS_CERT_ALTNAME_INVALID"
      ]
    ] as const
    const outputs = yield* Effect.forEach(cases, ([change]) => check({ ...environment, ...change }), {
      concurrency: "unbounded"
    })
    for (const [at, [, verdict, reason]] of cases.entries()) {
      for (const name of ["iam", "ting", "tables", "tracker"])
        expect(outputs[at]).toMatch(new RegExp(`^${verdict} +${name} .*${reason}`, "m"))
      expect(outputs[at]).not.toMatch(new RegExp(`${proxyPassword}|hidden`))
    }
    // Before the credentials are sent.
    expect([misnamed.targets, misnamed.credentials]).toEqual([[], []])
    const [trusting, doubting] = outputs
    expect(trusting).toMatch(/^FAIL +database .*cannot be opened, read or written \(28P01\)/m)
    expect(doubting).toMatch(/^FAIL +database .*cannot be opened, read or written \([A-Z_]*CERT[A-Z_]*\)/m)
  })
})
