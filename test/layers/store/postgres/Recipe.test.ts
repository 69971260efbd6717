import { randomUUID } from "node:crypto"
import { readFileSync } from "node:fs"
import { assert, describe } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { inject } from "vitest"
import { openPostgres } from "../../../../src/layers/store/postgres/PgStore.ts"
import { makeStore } from "../../../../src/layers/store/repositories/Repositories.ts"
import { postgres } from "../Stores.ts"

const page = readFileSync(new URL("../../../../docs/postgresql.md", import.meta.url), "utf8")
const section = page.split(/^##+ /m).find((text) => text.startsWith("Role and database")) ?? ""

describe("The recipe of docs/postgresql.md for role and database", () => {
  it.scopedLive("makes a role that can do all a server needs, and nothing else", function* () {
    const name = `music_${randomUUID().replaceAll("-", "")}`
    const recipe = [...section.matchAll(/^```sql\n(.*?)^```$/gms)].map(([, script = ""]) =>
      script.replaceAll("music", name)
    )
    deepStrictEqual(recipe.length, 2)
    const superuser = inject("postgres").server
    const inside = Object.assign(new URL(superuser), { pathname: `/${name}` }).href
    const url = Object.assign(new URL(inside), { username: name, password: "secret" }).href
    yield* Effect.addFinalizer(() =>
      postgres.rawQuery(
        superuser,
        `DROP DATABASE IF EXISTS ${name} WITH (FORCE);\nDROP ROLE IF EXISTS ${name}`
      )
    )
    // One statement each: CREATE DATABASE runs outside of transactions.
    for (const [at, script] of recipe.entries())
      yield* postgres.rawQuery(at === 0 ? superuser : inside, script)
    const store = yield* Effect.flatMap(openPostgres(Redacted.make(url)), makeStore)
    yield* store.check
    const [rights] = yield* postgres.rawQuery(
      superuser,
      `SELECT rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls,
          has_database_privilege('public', '${name}', 'CONNECT') AS others
        FROM pg_roles WHERE rolname = '${name}'`
    )
    assert.isTrue(
      Object.values(rights ?? {}).every((right) => right === false),
      JSON.stringify(rights)
    )
    // The way of a restore.
    yield* postgres.rawQuery(url, "DROP SCHEMA public CASCADE;\nCREATE SCHEMA public")
    yield* openPostgres(Redacted.make(url))
  })
})
