/**
 * Guards against timestamps that were written while a host's clock ran fast: due times more than 2 h ahead and leases over 5 times
 * their length count as expired.
 */

/** Milliseconds; no pause and no delay is longer than an hour. */
const maxDueDistance = 2 * 60 * 60_000

/** The latest plausible due time (milliseconds since the epoch). */
export const latestDueTime = (now: number): number => now + maxDueDistance

const maxLeaseLengths = 5

/** The latest plausible end of a lease (milliseconds since the epoch): 5 times the length of one that begins now. */
export const latestLeaseEnd = (now: number, leaseUntil: number): number =>
  now + maxLeaseLengths * (leaseUntil - now)

/** Milliseconds that remain of a pause. */
export const remainingPause = (pausedUntil: number, now: number): number =>
  pausedUntil > latestDueTime(now) ? 0 : Math.max(0, pausedUntil - now)
