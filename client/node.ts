/** For Node only: a session that the processes of one machine share. */
export type { FileLockOptions } from "./stores/FileLock.ts"
export { fileLock } from "./stores/FileLock.ts"
export { type FileSessionStoreOptions, fileSessionStore } from "./stores/FileSessionStore.ts"
export type { SessionLock, SessionStore, StoredSession } from "./stores/SessionStore.ts"
export {
  SessionStoreError,
  type StoreFailureReason,
  type StoreProblemInput
} from "./failures/StoreFailures.ts"
