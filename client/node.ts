/** For Node only: a session that the processes of one machine share. */
export type { FileLockOptions } from "./FileLock.ts"
export { fileLock } from "./FileLock.ts"
export { fileSessionStore } from "./FileSessionStore.ts"
export type { SessionLock, SessionStore, StoredSession } from "./SessionStore.ts"
export { SessionStoreError, type StoreFailureReason } from "./StoreFailures.ts"
