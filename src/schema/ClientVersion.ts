/** Whether a version precedes another one, by the rules of Semantic Versioning 2.0.0, 11. `MUSIC_MIN_CLI` and `X-Music-Client-Version` are versions. */
import * as Order from "effect/Order"

/** Numbers by their value and below all texts; texts by their ASCII characters. */
const byIdentifier: Order.Order<string> = (a, b) => {
  const [isNumber, isOther] = [/^\d+$/.test(a), /^\d+$/.test(b)]
  if (isNumber && isOther) return Order.bigint(BigInt(a), BigInt(b))
  return isNumber ? -1 : isOther ? 1 : Order.string(a, b)
}

/** The identifiers of its numbers and of its pre-release; a release is above them all. Its build has no part in the order. */
const parse = (version: string): ReadonlyArray<string> => {
  const [, core = "", preRelease = "~"] = /^([^-+]*)(?:-([^+]*))?/.exec(version) ?? []
  return [...core.split("."), ...preRelease.split(".")]
}

export const isLowerVersion = Order.lessThan(Order.mapInput(Order.array(byIdentifier), parse))
