/**
 * Times that a clock wrote which was ahead, and was put right since. Whoever believed them would wait until they have really come; so a
 * time further off than anybody plans is not believed.
 */

/** Milliseconds: no pause and no delay is longer than an hour. */
const farthestPlan = 2 * 60 * 60_000

/** Times after this one were never planned (milliseconds since the epoch). */
export const beyondReason = (now: number): number => now + farthestPlan

const leasesAhead = 5

/** No lease ends later (milliseconds since the epoch): that is so many times the length of one that begins now. */
export const latestLeaseEnd = (now: number, leaseUntil: number): number =>
  now + leasesAhead * (leaseUntil - now)

/** Milliseconds for which a pause holds from now on. */
export const pauseLeft = (pausedUntil: number, now: number): number =>
  pausedUntil > beyondReason(now) ? 0 : Math.max(0, pausedUntil - now)
