/** What the browser remembers between visits. Without storage each visit is the first. */

export type Remembered = "tour" | "shortcuts"

const nameOf = (what: Remembered) => `music-sandbox-${what}`

export const recall = (what: Remembered): string | null => {
  try {
    return localStorage.getItem(nameOf(what))
  } catch {
    return null
  }
}

export const remember = (what: Remembered, value: string): void => {
  try {
    localStorage.setItem(nameOf(what), value)
  } catch {
    // A browser without storage.
  }
}
