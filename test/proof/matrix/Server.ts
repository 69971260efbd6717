/** The real service over the world's upstreams, fresh for each cell: nothing that one cell leaves in memory or in the database reaches another. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type { DeliveryLimits } from "../../../src/layers/delivery/DeliveryLimits.ts"
import { deliveryWith } from "../../../src/layers/delivery/Delivery.ts"
import { HttpIam } from "../../../src/layers/iam/HttpIam.ts"
import { makeStore } from "../../../src/layers/store/repositories/Repositories.ts"
import { openDatabase } from "../../../src/layers/store/sqlite/SqliteStore.ts"
import { TablesFromSettings } from "../../../src/layers/tables/HttpTables.ts"
import { HttpTing } from "../../../src/layers/ting/HttpTing.ts"
import { TrackerFromSettings } from "../../../src/layers/tracker/Tracker.ts"
import type { TableName } from "../../../src/schema/Telemetry.ts"
import { Drain } from "../../../src/services/Drain.ts"
import { Settings, type SettingsValues } from "../../../src/services/Settings.ts"
import { Store, type StoreService } from "../../../src/services/Store.ts"
import { InMemoryServer, inMemoryServer } from "../../support/InMemoryServer.ts"
import { testSettings } from "../../support/Settings.ts"
import { servicesWith, withoutDelivery } from "../../support/UseCaseLayers.ts"
import { repository, trackerToken, type World } from "./World.ts"

export interface ServerOptions {
  /** With the workers that deliver reports and telemetry, under these limits. */
  readonly workers?: Partial<DeliveryLimits>
  /** Tables that have a key; default: the daemon's. */
  readonly tables?: ReadonlyArray<TableName>
}

const settingsOf = ({ seeded, tableKeys, urls }: World, tables: ReadonlyArray<TableName>): SettingsValues => {
  const [owner = "", name = ""] = repository.split("/")
  return testSettings({
    rateLimit: true,
    iam: {
      url: urls.iam,
      applicationSecret: Redacted.make(seeded.production.musicSecret),
      webhookSecrets: new Map([
        [seeded.production.webhookKeyVersion, Redacted.make(seeded.production.webhookSecret)]
      ])
    },
    ting: { url: urls.ting },
    tables: Option.some({
      url: urls.tables,
      keys: new Map(tables.map((table) => [table, Redacted.make(tableKeys.get(table) ?? "")]))
    }),
    tracker: Option.some({
      token: Redacted.make(trackerToken),
      owner,
      repository: name,
      url: urls.tracker,
      reconcileSeconds: [5, 15, 40]
    })
  })
}

export interface Server {
  readonly send: Context.Tag.Service<typeof InMemoryServer>["send"]
  readonly store: StoreService
}

export const startServer = (world: World, { tables = ["musicclidaemon"], workers }: ServerOptions = {}) =>
  Effect.gen(function* () {
    const file = yield* world.makeDatabaseFile
    const store = yield* Effect.flatMap(openDatabase(file), makeStore)
    const ports = Layer.mergeAll(HttpIam, HttpTing, TablesFromSettings, TrackerFromSettings).pipe(
      Layer.provideMerge(Layer.succeed(Store, store)),
      Layer.provideMerge(Drain.Default),
      Layer.provide(world.transportLayer),
      Layer.provideMerge(Layer.succeed(Settings, settingsOf(world, tables)))
    )
    const context = yield* Layer.build(
      inMemoryServer().pipe(
        Layer.provide(servicesWith(workers === undefined ? withoutDelivery : deliveryWith(workers))),
        Layer.provide(ports)
      )
    )
    const { send } = Context.get(context, InMemoryServer)
    const server: Server = { send, store }
    return server
  })
