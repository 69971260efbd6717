/**
 * Derived idempotency keys: the same in every process and after every crash. They are digests, so a key in a log is no credential. A test
 * vector freezes them, so that other clients can derive them too.
 */
import { clientFailure } from "../failures/Failures.ts"

const utf8 = new TextEncoder()

/** Lower-case hex SHA-256. */
export const sha256 = async (text: string): Promise<string> => {
  try {
    const digest = await crypto.subtle.digest("SHA-256", utf8.encode(text))
    return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("")
  } catch {
    return Promise.reject(clientFailure("unsupported"))
  }
}

/** The key of an operation on a credential: `sha256("music-client/v1\n<operation>\n<credential>")`. */
export const deriveKey = (operation: "login" | "refresh" | "logout", credential: string): Promise<string> =>
  sha256(`music-client/v1\n${operation}\n${credential}`)
