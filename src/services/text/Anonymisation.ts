/** Removes the reporter's public id from text before it becomes an issue (api.md, reports). */
import { findPattern, replaceVisible } from "./VisibleText.ts"

const anonymousText = "[reporter]"

/**
 * Replaces the id wherever it is visible, in any letter case and after any character. Followed by a letter or digit it is another
 * id, unless a further id begins there. `_` counts as the colon where no letter or digit precedes the id, as in file names.
 */
export const anonymise = (text: string, publicId: string): string => {
  const [kind = "", handle = ""] = publicId.split(":")
  // Public ids contain no character that is special in a pattern.
  const name = new RegExp(`(?:${kind}:|(?<![a-z0-9])${kind}_)${handle}(?:(?![a-z0-9])|(?=(?:c|si):))`, "giu")
  return replaceVisible(text, findPattern(name), anonymousText)
}

/**
 * Anything in the form of a public id that is not preceded by a letter or digit, of any length, and with the ids that begin inside
 * its last letters.
 */
const anyPublicId = /(?<![a-z0-9])(?:c|si)[:_][a-z0-9_-]{3,}(?:(?<=c|si):[a-z0-9_-]{3,})*/giu

/** Replaces every public id, for a reporter whose own id is unknown. */
export const anonymiseAll = (text: string): string =>
  replaceVisible(text, findPattern(anyPublicId), anonymousText)
