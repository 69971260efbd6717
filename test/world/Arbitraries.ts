/** Repeatable random numbers of a simulation. What a suite searches by itself, it generates with fast-check (`effect/FastCheck`). */

const characters = "abcdefghijklmnopqrstuvwxyz0123456789"

/** The same seed yields the same numbers (mulberry32). */
export const seeded = (seed: number) => {
  let state = seed >>> 0
  /** From 0 up to, but not including, 1. */
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
  const below = (bound: number): number => Math.floor(next() * bound)
  return {
    next,
    below,
    /** So many small letters and digits. */
    text: (length: number): string =>
      Array.from({ length }, () => characters.charAt(below(characters.length))).join(""),
    shuffled: <A>(items: ReadonlyArray<A>): ReadonlyArray<A> =>
      items
        .map((item) => ({ item, rank: next() }))
        .sort((one, other) => one.rank - other.rank)
        .map(({ item }) => item)
  }
}
export type Random = ReturnType<typeof seeded>
