/** JSON values as JavaScript. */

export const indent = (text: string): string => text.replaceAll(/^/gm, "  ")

/** A value as a literal, on one line where that is short. Its second and later lines are not indented. */
export const literal = (value: unknown): string => {
  // A line of JSON begins with a name only where it is one: line ends within texts are escaped.
  const text = JSON.stringify(value, null, 2).replaceAll(/^(\s*)"([A-Za-z_]\w*)":/gm, "$1$2:")
  const line = text.replaceAll(/\n\s*/g, " ")
  return line.length <= 80 ? line : text
}
