/** Takes the reporter's public id out of text before it becomes an issue (api.md, reports). */
import { replaceShown } from "./TextNormalisation.ts"

const anonymousText = "[reporter]"

/**
 * Replaces the id wherever it shows, in any letter case and after any character. A letter or digit behind it makes it another's
 * id, unless a further id begins there. `_` counts as its colon where no letter or digit comes before: file names show it so.
 */
export const anonymise = (text: string, publicId: string): string => {
  const [kind = "", handle = ""] = publicId.split(":")
  // Public ids hold nothing that a pattern would read as its own.
  const name = new RegExp(`(?:${kind}:|(?<![a-z0-9])${kind}_)${handle}(?:(?![a-z0-9])|(?=(?:c|si):))`, "giu")
  return replaceShown(text, [name], anonymousText)
}

/**
 * Whatever has the form of a public id, at the start of a word or after anything but a letter or digit, of any length, and with
 * the ids that begin inside its last letters.
 */
const anyPublicId = /(?<![a-z0-9])(?:c|si)[:_][a-z0-9_-]{3,}(?:(?<=c|si):[a-z0-9_-]{3,})*/giu

/** Replaces every public id, for a reporter whose own is not known. */
export const anonymiseAll = (text: string): string => replaceShown(text, [anyPublicId], anonymousText)
