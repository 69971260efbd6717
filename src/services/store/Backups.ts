import type * as Option from "effect/Option"
import type { Stored } from "./StoreUnavailable.ts"

export interface Backups {
  /** When the last one was complete; none when no command recorded one. A snapshot of the disk is not recorded. */
  readonly last: Stored<Option.Option<number>>
}
