/**
 * Idempotency keys. Derived keys are the same in every process and after every crash. They are digests, so a key in a log
 * is no credential. A test vector freezes them, so that other clients can derive them too.
 */
import * as Effect from "effect/Effect"
import { clientFailure, type MusicFailure } from "./Failures.ts"

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
export const deriveKey = (operation: "login" | "refresh" | "logout", credential: string) =>
  sha256(`music-client/v1\n${operation}\n${credential}`)

/** A random UUID (version 4). `crypto.randomUUID` is missing on pages without a secure context. */
export const randomUuid: Effect.Effect<string> = Effect.sync(() => {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  const hex = [...bytes].map((byte, index) => {
    const marked = index === 6 ? (byte & 0x0f) | 0x40 : index === 8 ? (byte & 0x3f) | 0x80 : byte
    return marked.toString(16).padStart(2, "0")
  })
  return [hex.slice(0, 4), hex.slice(4, 6), hex.slice(6, 8), hex.slice(8, 10), hex.slice(10)]
    .map((part) => part.join(""))
    .join("-")
})

/** A short-lived token works once, so its digest can name the login. A test public id can log in many times. */
export const isSingleUse = (slt: string): boolean => /^oac_/.test(slt)

export const loginKey = (slt: string): Effect.Effect<string, MusicFailure<"unsupported">> =>
  isSingleUse(slt) ? deriveKey("login", slt) : randomUuid
