/**
 * The pause of a path after IAM's 429. Essential and known calls probe the path, one at a time; the first success ends the
 * pause. A small state object without effects; times are monotonic milliseconds.
 */
import type { Share } from "./Shares.ts"

/** While IAM blocks a path, one essential or known call in this many milliseconds probes it. */
const probeMillis = 5_000

export interface PathPause {
  /** IAM answered 429 with these seconds (`IamCall` reads 60 at most). Of several pauses the longest holds. */
  readonly begin: (seconds: number, now: number) => void
  readonly isOver: (now: number) => boolean
  /** The time from which a call of this share may be sent: the present, or the end of the pause. */
  readonly opensAt: (share: Share, now: number) => number
  /** A call is sent: the next probe comes later. */
  readonly recordCall: (now: number) => void
  /** A call succeeded. It ends the pause if it was sent after the pause began. */
  readonly recordSuccess: (sentAt: number) => void
}

export const makePathPause = (): PathPause => {
  let until = 0
  let beganAt = 0
  let nextProbeAt = 0
  return {
    begin: (seconds, now) => {
      until = Math.max(until, now + seconds * 1_000)
      beganAt = now
      nextProbeAt = now + probeMillis
    },
    isOver: (now) => until <= now,
    opensAt: (share, now) => {
      const mayProbe = (share === "essential" || share === "known") && now >= nextProbeAt
      return mayProbe ? now : Math.max(now, until)
    },
    recordCall: (now) => {
      nextProbeAt = now + probeMillis
    },
    recordSuccess: (sentAt) => {
      if (sentAt > beganAt) until = 0
    }
  }
}
