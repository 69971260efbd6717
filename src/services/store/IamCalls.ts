import type { Stored } from "./StoreUnavailable.ts"

/** A place in the budget for IAM that a stopped process had taken. It names no caller. */
export interface LeftCall {
  /** Plane and path. */
  readonly window: string
  /** Milliseconds since the epoch. */
  readonly freeAt: number
}

/** What a process that stops leaves to its successor, so that both together keep within IAM's limit. */
export interface IamCalls {
  readonly leave: (id: string, calls: ReadonlyArray<LeftCall>) => Stored<void>
  /** Removes and returns what all stopped processes left. */
  readonly take: () => Stored<ReadonlyArray<LeftCall>>
}
