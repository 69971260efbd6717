/** The promise client, for Node and browsers, with nothing to install beside it. */
export { hasCode, isMusicClientError, isUnknownCode, type MusicClientError } from "./failures/ErrorGuards.ts"
export type { ClientEvent, EventListener } from "./Events.ts"
export type {
  CallOptions,
  ClientClock,
  LoginOptions,
  LogoutOptions,
  MusicClientOptions,
  PromiseClientOptions,
  ReportOptions
} from "./Options.ts"
export {
  createMusicClient,
  type MusicClient,
  type RequestOptions,
  type ThrowingMusicClient
} from "./PromiseClient.ts"
export { newIdempotencyKey } from "./calls/RandomKey.ts"
export {
  memorySessionStore,
  processLock,
  type SessionLock,
  type SessionStore,
  type StoredSession
} from "./stores/SessionStore.ts"
export {
  SessionStoreError,
  type StoreFailureReason,
  type StoreProblemInput
} from "./failures/StoreFailures.ts"
export type * from "./Types.ts"
export { type WebLocks, webSessionStore } from "./stores/WebSessionStore.ts"
