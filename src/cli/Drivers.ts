/** What opens a database; a file of its own, so that other commands start without it. */

export { finishRestore } from "../layers/store/AfterRestore.ts"
export { latestMigration } from "../layers/store/Migrations.ts"
export { makeRecords } from "../layers/store/Records.ts"
export { makeStore } from "../layers/store/Repositories.ts"
export { databaseFromSettings } from "../layers/store/StoreFromSettings.ts"
