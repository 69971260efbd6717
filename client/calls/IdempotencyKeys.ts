/**
 * Idempotency keys. Derived keys are the same in every process and after every crash. They are digests, so a key in a log
 * is no credential. A test vector freezes them, so that other clients can derive them too.
 */
import * as Effect from "effect/Effect"
import { clientFailure, type MusicFailure } from "../failures/Failures.ts"
import { newIdempotencyKey } from "./RandomKey.ts"

const utf8 = new TextEncoder()

/** Lower-case hex SHA-256. */
export const sha256 = (text: string): Effect.Effect<string, MusicFailure<"unsupported">> =>
  Effect.tryPromise({
    try: () => crypto.subtle.digest("SHA-256", utf8.encode(text)),
    catch: () => clientFailure("unsupported")
  }).pipe(
    Effect.map((digest) =>
      [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("")
    )
  )

/** The key of an operation on a credential: `sha256("music-client/v1\n<operation>\n<credential>")`. */
export const deriveKey = (
  operation: "login" | "refresh" | "logout",
  credential: string
): Effect.Effect<string, MusicFailure<"unsupported">> =>
  sha256(`music-client/v1\n${operation}\n${credential}`)

export const randomUuid: Effect.Effect<string> = Effect.sync(newIdempotencyKey)

/** A short-lived token works once, so its digest can name the login. A test public id can log in many times. */
export const isSingleUse = (slt: string): boolean => /^oac_/.test(slt)

export const loginKey = (slt: string): Effect.Effect<string, MusicFailure<"unsupported">> =>
  isSingleUse(slt) ? deriveKey("login", slt) : randomUuid
