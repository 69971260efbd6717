/** `music-backend/client`: the promise client, for Node and browsers, with nothing to install beside it. */
export type { MusicClientOptions } from "./Options.ts"
export {
  type ClientClock,
  createMusicClient,
  hasCode,
  type MusicClient,
  newIdempotencyKey,
  type PromiseClientOptions,
  type RequestOptions
} from "./PromiseClient.ts"
export {
  memorySessionStore,
  processLock,
  type SessionLock,
  type SessionStore,
  type StoredSession
} from "./Store.ts"
export type * from "./Types.ts"
export { type WebLocks, webSessionStore } from "./WebStore.ts"
