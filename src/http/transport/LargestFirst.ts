/** Items by their size, the largest first. A change of a size by one costs the same however many items there are. */
export interface LargestFirst<A> {
  /** Sizes change by one; an item of size 0 is forgotten. */
  readonly resize: (item: A, size: number) => void
  /** Those above a size, the largest first. */
  readonly above: (size: number) => Iterable<A>
}

export const makeLargestFirst = <A>(): LargestFirst<A> => {
  const bySize = new Map<number, Set<A>>()
  const sizes = new Map<A, number>()
  let largest = 0

  const remove = (item: A): void => {
    const size = sizes.get(item) ?? 0
    const same = bySize.get(size)
    same?.delete(item)
    if (same?.size === 0) bySize.delete(size)
    sizes.delete(item)
  }

  return {
    resize: (item, size) => {
      remove(item)
      if (size > 0) {
        sizes.set(item, size)
        const same = bySize.get(size) ?? new Set()
        bySize.set(size, same.add(item))
      }
      // The item that left the largest size is one below it now.
      if (size > largest || !bySize.has(largest)) largest = size
    },
    above: function* (size) {
      for (let at = largest; at > size; at -= 1) yield* bySize.get(at) ?? []
    }
  }
}
