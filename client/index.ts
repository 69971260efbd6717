/** The promise client, for Node and browsers, with nothing to install beside it. */
export type { CallError, LocalError, SignedError, StoreError } from "./calls/Endpoints.ts"
export type { MusicClient } from "./Client.ts"
export { newIdempotencyKey } from "./calls/RandomKey.ts"
export type { ClientEvent, EventListener } from "./Events.ts"
export { hasCode, isMusicClientError, isUnknownCode, type MusicClientError } from "./failures/Failures.ts"
export {
  SessionStoreError,
  type StoreFailureReason,
  type StoreProblemInput
} from "./failures/StoreFailures.ts"
export type {
  CallOptions,
  ClientClock,
  LoginOptions,
  LogoutOptions,
  MusicClientOptions,
  PromiseClientOptions,
  ReportOptions,
  RequestHook
} from "./Options.ts"
export { createMusicClient, type ThrowingMusicClient } from "./PromiseClient.ts"
export {
  memorySessionStore,
  processLock,
  type SessionLock,
  type SessionStore,
  type StoredSession
} from "./stores/SessionStore.ts"
export { type WebLocks, webSessionStore } from "./stores/WebSessionStore.ts"
export type * from "./Types.ts"
