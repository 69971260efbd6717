/** Limits of request bodies (docs/api.md, "Request bodies"). */

/** Levels of nested arrays and objects in JSON. */
export const nestingLimit = 64

/**
 * Commas, colons and opening brackets outside of strings, in a body of more than 64 KiB: telemetry is never one. What the parser makes of
 * each takes up to 64 bytes, for as long as the request waits for IAM.
 */
export const markLimit = 20_000

/** Largest bodies in bytes. */
export const bodyLimits = {
  /** Auth calls and the subscription. */
  small: 16 * 1024,
  telemetry: 64 * 1024,
  ting: 512 * 1024,
  report: 512 * 1024,
  /** identity-service.md 11.2, step 4. */
  webhook: 1024 * 1024
} as const
