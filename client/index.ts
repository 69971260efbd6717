/** `music-backend/client`: the promise client, for Node and browsers, with nothing to install beside it. */
export type { ClientClock, MusicClientOptions, PromiseClientOptions } from "./Options.ts"
export {
  createMusicClient,
  hasCode,
  type MusicClient,
  newIdempotencyKey,
  type RequestOptions
} from "./PromiseClient.ts"
export {
  memorySessionStore,
  processLock,
  type SessionLock,
  type SessionStore,
  type StoredSession
} from "./SessionStore.ts"
export type * from "./Types.ts"
export { type WebLocks, webSessionStore } from "./WebSessionStore.ts"
