import { createHmac } from "node:crypto"
import type * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { sha256 } from "../Digest.ts"
import type { PlaneId } from "../Plane.ts"
import type { Stored } from "./StoreUnavailable.ts"

/** Of this use only: no other table has a digest with it. */
const label = "music-backend session digest"

/** The stored digest of a token, from its key in memory, which names its plane and SHA-256. */
export const sessionDigest = (tokenKey: string): string => sha256(`${label}\n${tokenKey}`)

/** Keyed, because public ids can be guessed, and log in to a testing plane. Another secret gives another digest. */
export const actorDigest = (secret: Redacted.Redacted, plane: PlaneId, publicId: string): string =>
  createHmac("sha256", Redacted.value(secret)).update(`${label}\n${plane} ${publicId}`).digest("hex")

/** What the tokens of one login have in common. */
export interface StoredLogin {
  /** The digest of the refresh token from which they descend. */
  readonly login: string
  /** The digest of the actor; undefined until IAM names it. */
  readonly actor: string | undefined
}

export interface StoredToken {
  readonly digest: string
  readonly kind: "access" | "refresh"
  /** Milliseconds since the epoch. */
  readonly endsAt: number
}

/** Digests of the tokens that logins and refreshes handed out. A row only ranks a call in the budget for IAM. */
export interface SessionDigests {
  /** A token that is stored already keeps its login and the earlier one of its ends. */
  readonly remember: (plane: PlaneId, login: StoredLogin, tokens: ReadonlyArray<StoredToken>) => Stored<void>
  /** The login of a token that has not ended. */
  readonly find: (digest: string) => Stored<Option.Option<StoredLogin>>
  readonly nameActor: (login: string, actor: string) => Stored<void>
  readonly forgetToken: (digest: string) => Stored<void>
  readonly forgetLogin: (login: string) => Stored<void>
}
