/** Whether a version precedes another one, by the rules of Semantic Versioning 2.0.0, 11. `MUSIC_MIN_CLI` and `X-Music-Client-Version` are versions. */
import * as Order from "effect/Order"

/** Numbers by their value and below all texts; texts by their ASCII characters. */
const byIdentifier: Order.Order<string> = (a, b) => {
  const [isNumber, isOther] = [/^\d+$/.test(a), /^\d+$/.test(b)]
  if (isNumber && isOther) return Order.bigint(BigInt(a), BigInt(b))
  return isNumber ? -1 : isOther ? 1 : Order.string(a, b)
}
const byIdentifiers = Order.array(byIdentifier)

/** The identifiers of its numbers and of its pre-release, if any; its build has no part in the order. */
const parse = (version: string): ReadonlyArray<string> => {
  const [, core = "", preRelease = ""] = /^([^-+]*)-?([^+]*)/.exec(version) ?? []
  return [...core.split("."), ...(preRelease === "" ? [] : preRelease.split("."))]
}

export const isLowerVersion = (version: string, than: string): boolean => {
  const [a, b] = [parse(version), parse(than)]
  const byCore = byIdentifiers(a.slice(0, 3), b.slice(0, 3))
  if (byCore !== 0) return byCore < 0
  const [one, other] = [a.slice(3), b.slice(3)]
  if (one.length === 0) return false
  return other.length === 0 || byIdentifiers(one, other) < 0
}
