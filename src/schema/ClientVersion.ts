import * as Order from "effect/Order"

/** The three numbers of a version; a pre-release counts as its release. */
const parse = (version: string): ReadonlyArray<bigint> =>
  (/^[\d.]+/.exec(version)?.[0] ?? "0").split(".").map(BigInt)

/** Whether a version precedes another one. `MUSIC_MIN_CLI` and `X-Music-Client-Version` are versions. */
export const isLowerVersion = Order.lessThan(Order.mapInput(Order.array(Order.bigint), parse))
