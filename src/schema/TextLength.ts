/** Lengths of texts count code points (docs/api.md, "Request bodies"). */

const countCodePoints = (text: string): number => {
  let count = 0
  for (const _ of text) count += 1
  return count
}

/** Whether a text has `low` to `high` code points, both included. Each has one or two units, so most texts need no count. */
export const hasLengthBetween = (low: number, high: number, text: string): boolean => {
  if (text.length >= 2 * low && text.length <= high) return true
  if (text.length < low || text.length > 2 * high) return false
  const length = countCodePoints(text)
  return length >= low && length <= high
}
