/**
 * What a whole test run shares: a PostgreSQL with a migrated template database, which each test copies in a few milliseconds, and
 * a folder for bundles.
 */
import { chmodSync } from "node:fs"
import { Effect, Redacted } from "effect"
import type { TestProject } from "vitest/node"
import { openPostgres } from "../../src/layers/store/postgres/PgStore.ts"
import { scratch } from "./Fleet.ts"
import { freshDatabase, startPostgres } from "./Postgres.ts"

declare module "vitest" {
  interface ProvidedContext {
    readonly postgres: { readonly server: string; readonly template: string }
  }
}

export default async (project: TestProject) => {
  const { path, remove } = scratch()
  // Another account runs a bundle, too.
  chmodSync(path, 0o755)
  // Workers start later, with the environment of this process.
  process.env.TEST_BUNDLES = path
  const server = await startPostgres()
  const template = await freshDatabase(server.url)
  await Effect.runPromise(Effect.scoped(openPostgres(Redacted.make(template.url))))
  project.provide("postgres", { server: server.url, template: new URL(template.url).pathname.slice(1) })
  return () => server.stop().finally(remove)
}
