/** Lengths of texts count code points (docs/api.md, "Request bodies"). */

const countCodePoints = (text: string): number => {
  let count = 0
  for (const _ of text) count += 1
  return count
}

/** Whether a text has `low` to `high` code points, both included. */
export const hasLengthBetween = (low: number, high: number, text: string): boolean => {
  const length = countCodePoints(text)
  return length >= low && length <= high
}
