/** Writes a Map entry as the newest one. Beyond `capacity` the entry with the oldest write is removed. */
export const putBounded = <A>(map: Map<string, A>, key: string, value: A, capacity: number): void => {
  map.delete(key)
  map.set(key, value)
  // The search for the first key passes those that were removed.
  const [oldest] = map.size > capacity ? map.keys() : []
  if (oldest !== undefined) map.delete(oldest)
}
