/** Database drivers in a module of their own: other commands start without loading them. */

export { withOwnName } from "../layers/store/backup/PostgresTools.ts"
export { refuseOpenDatabase } from "../layers/store/backup/Restore.ts"
export { countSessions, finishRestore } from "../layers/store/backup/RestoreReconciliation.ts"
export { latestMigration } from "../layers/store/migrations/Migrations.ts"
export { recordBackup } from "../layers/store/repositories/LastBackup.ts"
export { makeOperatorQueries } from "../layers/store/repositories/OperatorQueries.ts"
export { makeStore } from "../layers/store/repositories/Repositories.ts"
export { databaseFromSettings } from "../layers/store/StoreFromSettings.ts"
