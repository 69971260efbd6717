/** What the store's tests share: stores on real files in a folder that goes away, and sample records. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Reactivity from "@effect/experimental/Reactivity"
import * as SqliteClient from "@effect/sql-sqlite-node/SqliteClient"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { type SqliteOptions, storeAt } from "../../../src/layers/store/SqliteStore.ts"
import { productionId } from "../../../src/services/Plane.ts"
import {
  type InboxEvent,
  type Reports,
  type SpoolEntry,
  Store,
  type StoreService,
  type StoreUnavailable,
  Verified
} from "../../../src/services/Store.ts"

export const folder: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "music-store-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

export const freshPath = Effect.map(folder, (path) => join(path, "music.sqlite"))

/** Open until the scope closes. */
export const openStore = (
  path: string,
  options?: SqliteOptions
): Effect.Effect<StoreService, StoreUnavailable, Scope.Scope> =>
  Effect.map(Layer.build(storeAt(path, options)), Context.get(Store))

export const freshStore = Effect.flatMap(freshPath, (path) => openStore(path))

/** Opens, uses, closes. */
export const withStore = <A, E>(
  path: string,
  use: (store: StoreService) => Effect.Effect<A, E>
): Effect.Effect<A, E | StoreUnavailable> => Effect.scoped(Effect.flatMap(openStore(path), use))

/** A connection of another program: none of the store's rules apply to it. */
export const rawClient = (path: string) =>
  SqliteClient.make({ filename: path, disableWAL: true }).pipe(
    Effect.provideServiceEffect(Reactivity.Reactivity, Reactivity.make)
  )

export const rawQuery = (path: string, statement: string) =>
  Effect.scoped(Effect.flatMap(rawClient(path), (sql) => sql.unsafe<Record<string, unknown>>(statement)))

type Admitted = Parameters<Reports["admit"]>[0]

export const sampleReport = (change: Partial<Admitted> = {}): Admitted => ({
  id: "rep_1",
  plane: productionId,
  reporter: Verified({ publicId: "c:ana" }),
  content: {
    message: "Playback stops after a seek.",
    pr: "https://github.com/harbor/music/pull/12",
    attachments: [{ name: "player.log", content: "line\n" }],
    context: { os: "linux", nested: { list: [1, null, "ä"] } }
  },
  source: "cli",
  requestId: "req_1",
  createdAt: 1_000,
  marker: "0123456789abcdef0123456789abcdef",
  keyDigest: "key",
  contentDigest: "content",
  ...change
})

export const sampleEntry = (recordId: string, change: Partial<SpoolEntry> = {}): SpoolEntry => ({
  table: "musicclidaemon",
  recordId,
  eventAt: 900,
  json: `{"id":"${recordId}"}`,
  bytes: 10,
  acceptedAt: 1_000,
  ...change
})

export const sampleEvent = (change: Partial<InboxEvent> = {}): InboxEvent => ({
  plane: productionId,
  eventId: "0199a0c4-5e2b-7a10-8c3d-1f2e3d4c5b6a",
  eventType: "organization.membership.removed.v1",
  occurredAt: "2026-09-25T10:15:30.123456Z",
  organisationUuid: "0199a0aa-0000-7000-8000-000000000001",
  aggregateType: "organization_membership",
  aggregateId: "0199a0bb-0000-7000-8000-000000000002",
  aggregateVersion: 4,
  data: "{}",
  receivedAt: 1_000,
  ...change
})
