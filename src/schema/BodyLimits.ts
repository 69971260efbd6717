/** Limits of request bodies (docs/api.md, "Request bodies"). */

const kibibyte = 1024

/** Levels of nested arrays and objects in JSON. */
export const nestingLimit = 64

/** Largest bodies in bytes. */
export const bodyLimits = {
  /** Auth calls and the subscription. */
  small: 16 * kibibyte,
  telemetry: 64 * kibibyte,
  ting: 512 * kibibyte,
  report: 512 * kibibyte,
  /** identity-service.md 11.2, step 4. */
  webhook: 1024 * kibibyte
} as const
