/** One PostgreSQL for a whole test run, with a migrated template database that each test copies in a few milliseconds. */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { TestProject } from "vitest/node"
import { openPostgres } from "../../src/layers/store/postgres/PgStore.ts"
import { freshDatabase, startPostgres } from "./Postgres.ts"

declare module "vitest" {
  interface ProvidedContext {
    readonly postgres: { readonly server: string; readonly template: string }
  }
}

export default async (project: TestProject) => {
  const server = await startPostgres()
  const template = await freshDatabase(server.url)
  await Effect.runPromise(Effect.scoped(openPostgres(Redacted.make(template.url))))
  project.provide("postgres", { server: server.url, template: new URL(template.url).pathname.slice(1) })
  return server.stop
}
