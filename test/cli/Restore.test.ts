import { readFileSync, realpathSync, symlinkSync } from "node:fs"
import { join } from "node:path"
import { expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import {
  folder,
  freshPath,
  openStore,
  postgres,
  rawQuery,
  sampleReport,
  sqlite,
  withStore
} from "../layers/store/Stores.ts"
import { run } from "./Harness.ts"

const withReport = Effect.gen(function* () {
  const place = yield* freshPath
  yield* withStore(place, ({ reports }) => reports.admit(sampleReport(), true))
  return { place, environment: { MUSIC_DATABASE_PATH: place } }
})
const states = (place: string) => rawQuery(place, "SELECT state, attempts FROM deliveries")

it.scopedLive("restore replaces the database that a link leads to, and keeps the link", function* () {
  const { place } = yield* withReport
  const links = yield* folder
  const environment = { MUSIC_DATABASE_PATH: join(links, "music.sqlite") }
  symlinkSync(place, environment.MUSIC_DATABASE_PATH)
  yield* run(["backup", join(links, "copy")], environment)
  yield* rawQuery(place, "DELETE FROM deliveries")
  const { exit } = yield* run(["restore", join(links, "copy"), "--overwrite"], environment)
  expect(exit).toBe(0)
  expect(yield* states(place)).toEqual([{ state: "unknown", attempts: 1 }])
  expect(realpathSync(environment.MUSIC_DATABASE_PATH)).toBe(realpathSync(place))
})

it.scopedLive("restore --finish prints the same for a database that another tool restored", function* () {
  const { environment, place } = yield* withReport
  const { err, exit, out } = yield* run(["restore", "--finish"], environment)
  expect([exit, err]).toEqual([0, ""])
  expect(out).toMatch(/^database +SQLite database \S+\ndoubted +1 report/)
  expect(yield* states(place)).toEqual([{ state: "unknown", attempts: 1 }])
  const { json } = yield* run(["restore", "--finish", "--json"], environment)
  expect(json).toEqual({ database: `SQLite database ${place}`, doubted: 1 })
})

it.scopedLive("restore --finish accepts an older database, and does not migrate it", function* () {
  const place = yield* sqlite.emptyPath
  yield* rawQuery(
    place,
    readFileSync(new URL("../layers/store/migrations/fixtures/0001.sql", import.meta.url), "utf8")
  )
  const { exit } = yield* run(["restore", "--finish"], { MUSIC_DATABASE_PATH: place })
  expect(exit).toBe(0)
  expect(yield* rawQuery(place, "SELECT MAX(migration_id) AS latest FROM migrations")).toEqual([
    { latest: 1 }
  ])
  expect(yield* states(place)).toContainEqual({ state: "unknown", attempts: expect.any(Number) })
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
      const refused = yield* Effect.scoped(Effect.zipRight(open, run(["restore", "--finish"], there)))
      expect([refused.exit, refused.out, refused.err]).toEqual([
        69,
        "",
        expect.stringMatching(/in use.*\. Stop all servers.* and try again\.$/)
      ])
    }
    // Once they have stopped it is accepted; Postgres ends a session a moment after its client.
    expect((yield* run(["restore", "--finish"], environment)).exit).toBe(0)
    const accepted = yield* run(["restore", "--finish"], { MUSIC_DATABASE_URL: url }).pipe(
      Effect.delay("50 millis"),
      Effect.repeat({ until: ({ exit }) => exit === 0 })
    )
    expect(accepted.out).toMatch(/^doubted +none$/m)
    expect(yield* states(place)).toEqual([{ state: "unknown", attempts: 1 }])
  }
)

it.scopedLive("restore --finish does not create a database", function* () {
  const url = yield* postgres.emptyPath
  const { err, exit } = yield* run(["restore", "--finish"], { MUSIC_DATABASE_URL: url })
  expect(exit).toBe(69)
  expect(err).toMatch(/^music-backend: Postgres database \S+ holds nothing. Restore it first/)
  expect(yield* postgres.rawQuery(url, "SELECT to_regclass('migrations') AS made")).toEqual([{ made: null }])
})

it.effect("on PostgreSQL the output ends with the command to run", function* () {
  const environment = { MUSIC_DATABASE_URL: "postgres://music@db.example/music" }
  const { err, exit } = yield* run(["restore", "music.dump"], environment)
  expect([exit, err]).toEqual([69, expect.stringMatching(/ Run: \(umask .* --finish$/)])
  expect((yield* run(["backup", "music.dump"], environment)).err).toMatch(
    / Run: \(umask 077 && pg_dump .*db\.example\/music'\) && music-backend backup --record$/
  )
})

it.scopedLive(
  "an address without a host, as of a socket, is accepted; one that cannot be read is refused",
  function* () {
    const { hostname, password, pathname, port, username } = new URL(yield* postgres.freshPath)
    const socket = `postgres://${username}:${password}@${pathname}?host=${hostname}&port=${port}`
    const finished = yield* run(["restore", "--finish"], { MUSIC_DATABASE_URL: socket })
    expect([finished.exit, finished.err]).toEqual([0, ""])
    expect(finished.out).toMatch(/^doubted +none$/m)
    const named = { MUSIC_DATABASE_URL: "postgres://music:hidden@/music?host=/tmp&application_name=own" }
    for (const command of ["backup", "restore"]) {
      const { err, exit } = yield* run([command, "music.dump"], named)
      expect([exit, err]).toEqual([
        69,
        expect.stringContaining("--dbname='postgres://music@/music?host=%2Ftmp&application_name=own'")
      ])
    }
    for (const args of [
      ["backup", "music.dump"],
      ["restore", "music.dump"],
      ["restore", "--finish"]
    ]) {
      const { err, exit } = yield* run(args, { MUSIC_DATABASE_URL: "postgres://music:hidden@:port/music" })
      expect([args, exit, err]).toEqual([args, 69, expect.stringMatching(/MUSIC_DATABASE_URL.*\.$/)])
      expect(err).not.toContain("hidden")
    }
  }
)

it.effect("restore takes a file or --finish, and not both", function* () {
  for (const args of [[], ["a.sqlite", "--finish"], ["--finish", "--verify"], ["--finish", "--overwrite"]]) {
    const { err, exit } = yield* run(["restore", ...args], {})
    expect([exit, err]).toEqual([64, expect.stringContaining("--finish")])
  }
})
