/** Writes a Map entry as the newest one. Beyond `capacity` the entry with the oldest write is removed. */
export const putBounded = <A>(map: Map<string, A>, key: string, value: A, capacity: number): void => {
  map.delete(key)
  map.set(key, value)
  // The search for the first key passes those that were removed.
  if (map.size <= capacity) return
  for (const oldest of map.keys()) {
    if (map.size <= capacity) break
    map.delete(oldest)
  }
}
