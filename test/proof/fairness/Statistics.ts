/** The value below which this part of the values lies; 0 without values. */
export const percentile = (values: ReadonlyArray<number>, part: number): number => {
  const sorted = [...values].sort((one, other) => one - other)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0
}

/** Jain's index of fairness: 1 when all values are equal, 1/n when one has everything. */
export const jainIndex = (values: ReadonlyArray<number>): number => {
  const sum = values.reduce((total, value) => total + value, 0)
  const squares = values.reduce((total, value) => total + value * value, 0)
  return squares === 0 ? 1 : (sum * sum) / (values.length * squares)
}

/** The most of these times that lie within one such span; the times are in order. */
export const mostWithin = (times: ReadonlyArray<number>, span: number): number => {
  let most = 0
  let first = 0
  for (let last = 0; last < times.length; last += 1) {
    while ((times[last] ?? 0) - (times[first] ?? 0) >= span) first += 1
    most = Math.max(most, last - first + 1)
  }
  return most
}
