/** Takes the reporter's public id out of text before it becomes an issue (api.md, reports). */
import { replaceShown } from "./TextNormalisation.ts"

/**
 * Replaces the id wherever it shows, in any letter case and after any character. A letter or digit behind it makes it another's
 * id, unless a further id begins there. `_` counts as its colon where no letter or digit comes before: file names show it so.
 */
export const anonymise = (text: string, publicId: string): string => {
  const [kind = "", handle = ""] = publicId.split(":")
  // Public ids hold nothing that a pattern would read as its own.
  const name = new RegExp(`(?:${kind}:|(?<![a-z0-9])${kind}_)${handle}(?:(?![a-z0-9])|(?=(?:c|si):))`, "giu")
  return replaceShown(text, [name], "[reporter]")
}
