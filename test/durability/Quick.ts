/** Limits under which recovery takes a second or two, and the program that uses them. */
import { fileURLToPath } from "node:url"
import type { InstanceOptions } from "./Fleet.ts"

export const entry = fileURLToPath(new URL("./Instance.ts", import.meta.url))

/** Milliseconds. A lease is longer than the pauses of a busy machine. */
export const quick: InstanceOptions = {
  brief: true,
  reconcileSeconds: [0.05, 0.1, 0.2],
  bounds: {
    lease: 1_500,
    telemetryLease: 3_000,
    telemetryStopGrace: 300,
    telemetryPollInterval: 200,
    batchDelay: 50,
    firstBackoff: 50,
    probeInterval: 300,
    writeSpacing: 20,
    hourlyWrites: 100_000,
    ordinaryHourlyWrites: 100_000,
    sweepDelay: 1_000
  }
}
