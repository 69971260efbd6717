/** The queue of a client's events, for programs that record some. */
export {
  createTelemetry,
  type Recorded,
  type Telemetry,
  type TelemetryOptions
} from "./telemetry/Telemetry.ts"
export type { ClientTable, TelemetryEvent, TelemetryStats } from "./Types.ts"
