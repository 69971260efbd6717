/**
 * `npm run bench:webhooks`: 200 signed webhooks a second for 20 s against the real server, on SQLite and on PostgreSQL,
 * compared with a bare HTTP server that makes one synced append per request; then telemetry from one sender and from many.
 */
import { fork } from "node:child_process"
import { randomUUID } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { production } from "../sandbox/upstreams/Iam.ts"
import { postgresDatabase, sqliteDatabase, type TestDatabase } from "../test/durability/Databases.ts"
import { bundle } from "../test/durability/Fleet.ts"
import { environmentOf, type Simulators, startSimulators } from "../test/durability/Simulators.ts"
import { startPostgres } from "../test/support/Postgres.ts"
import { freePort, start } from "../test/support/Process.ts"
import { atRate, type Latencies, type Outgoing, throughput } from "./Load.ts"

const promisedP99Millis = 50
const rate = { perSecond: 200, seconds: Number(process.env.BENCH_SECONDS ?? 20) }
const warmUp = { perSecond: 100, seconds: 2 }
const senders = 32

const print = (line: string) => process.stdout.write(`${line}\n`)
const here = (file: string) => fileURLToPath(new URL(file, import.meta.url))

const webhooks = (world: Simulators) => (): Outgoing => {
  const event = world.iam.controls.events.membershipUpdated(production, "si:lyra", "acme")
  const { body, headers } = world.iam.controls.buildWebhook(production, {
    ...event,
    eventId: randomUUID(),
    // Deliveries of one aggregate are serialised; IAM sends events of many aggregates.
    aggregate: { type: "organization_membership", id: randomUUID(), version: 1 }
  })
  return { path: "/webhook/", headers, body }
}

const telemetry = (): Outgoing => ({
  path: "/api/v1/telemetry",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({
    table: "musicclidaemon",
    events: [{ id: randomUUID(), type: "playback.track.started", data: { track: 7 }, metadata: {} }]
  })
})

interface Measured {
  readonly name: string
  readonly webhooks: Latencies
  readonly alone?: number
  readonly together?: number
}

const measureServer = async (file: string, world: Simulators, database: TestDatabase): Promise<Measured> => {
  const port = await freePort()
  const server = start(process.execPath, [file], {
    ...environmentOf(world),
    ...database.environment,
    MUSIC_BIND: `127.0.0.1:${port}`,
    MUSIC_LOG_LEVEL: "warn"
  })
  const url = `http://127.0.0.1:${port}`
  try {
    for (let tries = 0; tries < 500; tries += 1) {
      if (server.child.exitCode !== null) throw new Error(server.output())
      if (
        await fetch(`${url}/readyz`).then(
          ({ ok }) => ok,
          () => false
        )
      )
        break
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    const next = webhooks(world)
    await atRate({ url, ...warmUp }, next)
    const taken = await atRate({ url, ...rate }, next)
    const alone = await throughput({ url, senders: 1, seconds: 4 }, telemetry)
    const together = await throughput({ url, senders, seconds: 4 }, telemetry)
    if (alone.failed + together.failed > 0)
      print(`${alone.failed + together.failed} telemetry requests failed`)
    return { name: database.kind, webhooks: taken, alone: alone.perSecond, together: together.perSecond }
  } finally {
    server.child.kill("SIGKILL")
    await server.ended
    await database.remove()
  }
}

const measurePeer = async (world: Simulators): Promise<Measured> => {
  const folder = mkdtempSync(join(tmpdir(), "music-bench-"))
  const child = fork(here("./peer.mjs"), [join(folder, "log")], { execArgv: [] })
  const url = await new Promise<string>((resolve) =>
    child.once("message", (message: { readonly ready: string }) => resolve(message.ready))
  )
  try {
    const next = webhooks(world)
    await atRate({ url, ...warmUp }, next)
    return { name: "bare server", webhooks: await atRate({ url, ...rate }, next) }
  } finally {
    child.kill("SIGKILL")
    rmSync(folder, { recursive: true, force: true })
  }
}

const millis = (value: number) => value.toFixed(1)

const row = ({ alone, name, together, webhooks: taken }: Measured, peer: Measured): string =>
  `| ${[
    name,
    `${taken.count}${taken.failed === 0 ? "" : ` (${taken.failed} failed)`}`,
    millis(taken.p50),
    millis(taken.p95),
    millis(taken.p99),
    millis(taken.max),
    (taken.p99 / peer.webhooks.p99).toFixed(2),
    alone === undefined ? "" : alone.toFixed(0),
    together === undefined ? "" : together.toFixed(0)
  ].join(" | ")} |`

let status = 1
const server = await bundle(here("../src/main.ts"))
const world = await startSimulators()
const postgres = await startPostgres({ fsync: true })
try {
  const peer = await measurePeer(world)
  const measured = [
    peer,
    await measureServer(server.file, world, await sqliteDatabase()),
    await measureServer(server.file, world, await postgresDatabase(postgres.url))
  ]
  print(
    `${rate.perSecond} webhooks a second for ${rate.seconds} s, milliseconds; telemetry requests a second`
  )
  print("")
  print(
    `| server | answered | p50 | p95 | p99 | max | p99 to bare | telemetry, 1 sender | ${senders} senders |`
  )
  print("|---|---|---|---|---|---|---|---|---|")
  for (const each of measured) print(row(each, peer))
  const slow = measured.filter(({ webhooks: taken }) => taken.failed > 0 || taken.p99 >= promisedP99Millis)
  print("")
  print(
    slow.length === 0
      ? `p99 is under ${promisedP99Millis} ms everywhere`
      : `over ${promisedP99Millis} ms: ${slow.map(({ name }) => name).join(", ")}`
  )
  status = slow.length === 0 ? 0 : 1
} finally {
  await postgres.stop()
  await world.close()
  server.remove()
}
process.exit(status)
