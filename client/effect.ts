/** The client as an Effect service, with the program's own `effect` and HTTP client. */
export type { CallError, LocalError, SignedError, StoreError } from "./calls/Endpoints.ts"
export { newIdempotencyKey } from "./calls/RandomKey.ts"
export {
  type EffectClient,
  Jitter,
  MusicClient,
  type MusicFailure,
  toError,
  withMetadata
} from "./effect/MusicClient.ts"
export type { ClientEvent, EventListener } from "./Events.ts"
export {
  SessionStoreError,
  type StoreFailureReason,
  type StoreProblemInput
} from "./failures/StoreFailures.ts"
export type {
  CallOptions,
  LoginOptions,
  LogoutOptions,
  MusicClientOptions,
  ReportOptions,
  RequestHook
} from "./Options.ts"
export {
  memorySessionStore,
  processLock,
  type SessionLock,
  type SessionStore,
  type StoredSession
} from "./stores/SessionStore.ts"
export type { Recorded, TelemetryOptions } from "./telemetry/Telemetry.ts"
export type * from "./Types.ts"
