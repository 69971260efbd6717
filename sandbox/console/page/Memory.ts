/** What the browser remembers between visits. Without storage each visit is the first. */

type Remembered = "tour" | "progress"

const nameOf = (what: Remembered) => `music-sandbox-${what}`

/** The tour's progress is of one tab. */
const storageOf = (what: Remembered) => (what === "progress" ? sessionStorage : localStorage)

export const recall = (what: Remembered): string | null => {
  try {
    return storageOf(what).getItem(nameOf(what))
  } catch {
    return null
  }
}

export const remember = (what: Remembered, value: string): void => {
  try {
    storageOf(what).setItem(nameOf(what), value)
  } catch {
    // A browser without storage.
  }
}
