/** Repeatable random numbers: the same seed yields the same ones (mulberry32). */
export interface Random {
  /** From 0 up to, but not including, 1. */
  readonly next: () => number
  readonly below: (bound: number) => number
  readonly shuffled: <A>(items: ReadonlyArray<A>) => ReadonlyArray<A>
}

export const seeded = (seed: number): Random => {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
  const below = (bound: number) => Math.floor(next() * bound)
  return {
    next,
    below,
    shuffled: (items) =>
      items
        .map((item) => ({ item, rank: next() }))
        .sort((one, other) => one.rank - other.rank)
        .map(({ item }) => item)
  }
}
