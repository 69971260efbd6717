/** The client as an Effect service, with the program's own `effect` and HTTP client, and what `music-client` has beside it. */
export {
  type EffectClient,
  MusicClient,
  type MusicFailure,
  withMetadata
} from "./effect/MusicClient.ts"
export * from "./index.ts"
export type { Recorded, TelemetryOptions } from "./telemetry/Telemetry.ts"
