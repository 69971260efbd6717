import type * as Option from "effect/Option"
import type { Stored } from "./StoreUnavailable.ts"

/** Testing environments that have used this service, by the digest of their webhook root key. */
export interface KnownPlanes {
  readonly remember: (plane: {
    readonly environmentId: string
    readonly webhookKeyDigest: string
    readonly now: number
  }) => Stored<void>
  /** The environment whose root key has this digest. */
  readonly findByKeyDigest: (keyDigest: string) => Stored<Option.Option<string>>
}
