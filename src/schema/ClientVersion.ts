/** Versions of clients: their form and their order. `MUSIC_MIN_CLI` and `X-Music-Client-Version` are such versions. */
import * as Order from "effect/Order"

const isNumber = (identifier: string): boolean => /^\d+$/.test(identifier)

/** Numbers by their value and below all texts; texts by their ASCII characters. */
const identifierOrder: Order.Order<string> = (a, b) => {
  if (isNumber(a)) return isNumber(b) ? Order.bigint(BigInt(a), BigInt(b)) : -1
  return isNumber(b) ? 1 : Order.string(a, b)
}

const identifiersOrder = Order.array(identifierOrder)

/** The identifiers of a version; its build has no part in the order. */
const parse = (version: string) => {
  const [precedence = ""] = version.split("+", 1)
  const [core = "", ...preRelease] = precedence.split("-")
  return {
    core: core.split("."),
    preRelease: preRelease.length === 0 ? undefined : preRelease.join("-").split(".")
  }
}

/** Whether a version precedes another one, by the rules of Semantic Versioning 2.0.0, 11. */
export const isLowerVersion = (version: string, than: string): boolean => {
  const a = parse(version)
  const b = parse(than)
  const byCore = identifiersOrder(a.core, b.core)
  if (byCore !== 0) return byCore < 0
  if (a.preRelease === undefined) return false
  return b.preRelease === undefined || identifiersOrder(a.preRelease, b.preRelease) < 0
}
