import { createHash, randomBytes } from "node:crypto"
import * as Redacted from "effect/Redacted"

/** Lower-case hex SHA-256. */
export const sha256 = (data: string | Uint8Array): string => createHash("sha256").update(data).digest("hex")

/** Digest under which a secret is compared and looked up. */
export const digestOf = (secret: Redacted.Redacted): string => sha256(Redacted.value(secret))

/** Unguessable lower-case hex of `bytes` random bytes. */
export const randomHex = (bytes: number): string => randomBytes(bytes).toString("hex")

/** JSON text that is equal for equal values: keys sorted, `null` members left out like absent ones. */
export const canonicalJson = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`
  if (typeof value === "object" && value !== null) {
    const members = Object.entries(value)
      .filter(([, member]) => member !== null && member !== undefined)
      .sort(([left], [right]) => (left < right ? -1 : 1))
      .map(([name, member]) => `${JSON.stringify(name)}:${canonicalJson(member)}`)
    return `{${members.join(",")}}`
  }
  return JSON.stringify(value) ?? "null"
}
