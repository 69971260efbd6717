import { realpathSync, symlinkSync } from "node:fs"
import { join } from "node:path"
import { expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { sampleReport } from "../layers/store/Samples.ts"
import { folder, freshPath, openStore, postgres, rawQuery, withStore } from "../layers/store/Stores.ts"
import { run } from "./Harness.ts"

const withReport = Effect.gen(function* () {
  const place = yield* freshPath
  yield* withStore(place, ({ reports }) => reports.admit(sampleReport(), true))
  return { place, environment: { MUSIC_DATABASE_PATH: place } }
})
const states = (place: string) => rawQuery(place, "SELECT state, attempts FROM deliveries")
const finish = ["restore", "--finish"]

it.scopedLive("restore replaces the database that a link leads to, and keeps the link", function* () {
  const { place } = yield* withReport
  const links = yield* folder
  const environment = { MUSIC_DATABASE_PATH: join(links, "music.sqlite") }
  symlinkSync(place, environment.MUSIC_DATABASE_PATH)
  yield* run(["backup", join(links, "copy")], environment)
  yield* rawQuery(place, "DELETE FROM deliveries")
  expect((yield* run(["restore", join(links, "copy"), "--overwrite"], environment)).exit).toBe(0)
  expect(yield* states(place)).toEqual([{ state: "unknown", attempts: 1 }])
  expect(realpathSync(environment.MUSIC_DATABASE_PATH)).toBe(realpathSync(place))
})

it.scopedLive("restore --finish doubts what another tool restored", function* () {
  const { environment, place } = yield* withReport
  const { exit, json } = yield* run([...finish, "--json"], environment)
  expect([exit, json]).toEqual([0, { database: `SQLite database ${place}`, doubted: 1 }])
  expect(yield* states(place)).toEqual([{ state: "unknown", attempts: 1 }])
})

it.scopedLive(
  "restore --finish is refused while a server has the database open, on both databases",
  function* () {
    const { environment, place } = yield* withReport
    const url = yield* postgres.freshPath
    for (const [open, there] of [
      [openStore(place), environment],
      [postgres.openStore(url), { MUSIC_DATABASE_URL: url }],
      [postgres.openStore(`${url}?application_name=one`), { MUSIC_DATABASE_URL: url }]
    ] as const) {
      const refused = yield* Effect.scoped(Effect.zipRight(open, run(finish, there)))
      const err = expect.stringMatching(/in use.*\. Stop all servers.* and try again\.$/)
      expect(refused).toMatchObject({ exit: 69, out: "", err })
    }
    // Once they have stopped it is accepted; Postgres ends a session a moment after its client.
    expect((yield* run(finish, environment)).exit).toBe(0)
    const accepted = yield* run(finish, { MUSIC_DATABASE_URL: url }).pipe(
      Effect.delay("50 millis"),
      Effect.repeat({ until: ({ exit }) => exit === 0 })
    )
    expect(accepted.out).toMatch(/^doubted +0$/m)
  }
)

it.scopedLive("restore --finish does not create a database", function* () {
  const url = yield* postgres.emptyPath
  const { err, exit } = yield* run(finish, { MUSIC_DATABASE_URL: url })
  expect([exit, err]).toEqual([69, expect.stringContaining("holds nothing. Restore it first")])
  expect(yield* postgres.rawQuery(url, "SELECT to_regclass('migrations') AS made")).toEqual([{ made: null }])
})

it.scopedLive(
  "accepts an address without a host, as of a socket, and refuses one that cannot be read",
  function* () {
    const { hostname, password, pathname, port, username } = new URL(yield* postgres.freshPath)
    const socket = `postgres://${username}:${password}@${pathname}?host=${hostname}&port=${port}`
    expect(yield* run(finish, { MUSIC_DATABASE_URL: socket })).toMatchObject({ exit: 0, err: "" })
    for (const args of [["backup", "music.dump"], ["restore", "music.dump"], finish]) {
      const { err, exit } = yield* run(args, { MUSIC_DATABASE_URL: "postgres://music:hidden@:port/music" })
      expect([args, exit, err]).toEqual([args, 78, expect.stringMatching(/MUSIC_DATABASE_URL.*\.$/)])
      expect(err).not.toContain("hidden")
    }
  }
)

it.effect("on PostgreSQL backup and restore name the commands to run, without the password", function* () {
  const environment = { MUSIC_DATABASE_URL: "postgres://music:hidden@/music?host=/tmp&application_name=own" }
  for (const [command, last] of [
    ["backup", "backup --record"],
    ["restore", "restore --finish"]
  ] as const) {
    const { err, exit } = yield* run([command, "music.dump"], environment)
    expect([exit, err]).toEqual([69, expect.stringMatching(/ Run: \(umask 077 && pg_/)])
    expect(err).toContain("--dbname='postgres://music@/music?host=%2Ftmp&application_name=own'")
    expect(err.endsWith(`music-backend ${last}`)).toBe(true)
  }
})
