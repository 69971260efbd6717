import { realpathSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { sampleReport } from "../layers/store/Samples.ts"
import { folder, freshPath, rawQuery, withStore } from "../layers/store/Stores.ts"
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
  const { err, exit } = yield* run(["restore", join(links, "copy"), "--overwrite"], environment)
  expect([exit, err]).toEqual([0, expect.stringContaining("searches the tracker")])
  expect(yield* states(place)).toEqual([{ state: "unknown", attempts: 1 }])
  expect(realpathSync(environment.MUSIC_DATABASE_PATH)).toBe(realpathSync(place))
})

it.scopedLive("a file that is no backup is named with the next step alone", function* () {
  const other = join(yield* folder, "notes.txt")
  writeFileSync(other, "no database".repeat(100))
  const environment = { MUSIC_DATABASE_PATH: yield* freshPath }
  expect(yield* run(["restore", other], environment)).toMatchObject({
    exit: 69,
    err: expect.stringMatching(/not a database \(SQLITE_NOTADB\)\. Use another backup, or/)
  })
})

it.effect("on PostgreSQL backup and restore are refused, without the password", function* () {
  const environment = { MUSIC_DATABASE_URL: "postgres://music:hidden@/music?host=/tmp" }
  for (const command of ["backup", "restore"])
    expect(yield* run([command, "music.dump"], environment)).toMatchObject({
      exit: 69,
      err: expect.stringMatching(
        /^(?!.*hidden).*PostgreSQL's own tools\. Run the commands of docs.operations\.md/s
      )
    })
})
